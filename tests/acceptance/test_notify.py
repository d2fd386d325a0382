"""Telling people from the command line: who is told is said by the project's own file, and its addresses are shown to nobody."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broken import alive, until
from tests.support.odf import Odf
from tests.support.webhook import Webhook, webhook

KEY = {"PASSKEY": "a long passphrase of the team"}
BASE = """
[project]
name = "shop"
[dataset.raw]
partition = "number"
[dataset.orders]
partition = "number"
[job.clean]
reads = ["raw"]
writes = ["orders"]
"""
RULE = """
[[notify.rule]]
on = ["failed", "recovered"]
to = ["oncall"]
"""
PAGE = "#!/bin/sh\ncat > told-$ODF_NOTIFY_WHAT.json\nenv > env.txt\n"


@pytest.fixture
def odf(tmp_path: Path) -> Odf:
    folder = tmp_path / "project"
    (folder / "jobs").mkdir(parents=True)
    script(folder / "jobs/clean.sh", "#!/bin/sh\ntest -e mended\n")
    (folder / "dataflow.toml").write_text(BASE)
    odf = Odf(folder, f"sqlite:///{tmp_path}/store.db")
    odf("migrate", "--store", odf.store_url)
    odf("apply", "--yes")
    odf("ready", "raw", "1")
    return odf


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


def script(path: Path, code: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    path.chmod(0o755)


def tells(odf: Odf, target: str, rule: str = RULE) -> None:
    (odf.folder / "dataflow.toml").write_text(f"{BASE}\n[notify.oncall]\n{target}\n{rule}")


def test_a_program_of_the_project_gets_the_message_as_json_and_neither_key_nor_shell(odf: Odf) -> None:
    tells(odf, 'command = "bin/page.sh"')
    script(odf.folder / "bin/page.sh", PAGE)
    odf("run", "clean", code=1, **KEY)
    odf("notify", code=None)
    told = json.loads((odf.folder / "told-opened.json").read_text())
    assert (told["kind"], told["dataset"], told["dataid"], told["chunks"]) == ("failed", "orders", "1", 1)
    assert told["subject"].startswith("[shop/default] 1 chunk FAILED: JOB_FAILED: ")
    assert "odf recover" in told["body"]
    assert "a long passphrase" not in (odf.folder / "env.txt").read_text()
    (odf.folder / "mended").touch()
    odf("resubmit", "orders", "1")
    odf("run", "clean")
    odf("notify", code=None)
    assert json.loads((odf.folder / "told-over.json").read_text())["over"] is not None
    listed = odf("notify", "list", "--json").data
    assert [(each["what"], each["state"]) for each in listed[0]["messages"]] == [("opened", "SENT"), ("over", "SENT")]


@pytest.mark.parametrize("path", ["bin/page.sh", "bin"])
def test_a_program_that_every_user_can_write_is_not_run(odf: Odf, path: str) -> None:
    odf("run", "clean", code=1)
    tells(odf, 'command = "bin/page.sh"')
    script(odf.folder / "bin/page.sh", "#!/bin/sh\ntouch ran\n")
    (odf.folder / path).chmod(0o777)
    for answer in (odf("notify", code=1), odf("notify", "test", "oncall", code=None)):
        assert f"{odf.folder}/{path} is writable by every user" in answer.err
    assert not (odf.folder / "ran").exists()
    (odf.folder / path).chmod(0o755)
    odf("notify", "test", "oncall")
    assert (odf.folder / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_program_of_another_user_is_not_run(odf: Odf) -> None:
    tells(odf, 'command = "bin/page.sh"')
    script(odf.folder / "bin/page.sh", "#!/bin/sh\ntouch ran\n")
    os.chown(odf.folder / "bin/page.sh", 65534, 65534)
    assert "belongs to" in odf("notify", "test", "oncall", code=None).err
    assert not (odf.folder / "ran").exists()


def test_an_encrypted_address_is_used_and_never_shown(odf: Odf, hook: Webhook) -> None:
    secret = f"{hook.url}/T0KEN-of-the-channel"
    sealed = odf("crypt", "encrypt", "--for-notify", "oncall", stdin=secret, **KEY).out.strip()
    tells(odf, f'encrypted = "{sealed}"')
    assert odf("crypt", "decrypt", "--for-notify", "oncall", sealed, "--yes-print", **KEY).out.strip() == secret
    assert odf("crypt", "decrypt", "--for-notify", "other", sealed, "--yes-print", code=17, **KEY).out == ""
    odf("notify", "test", "oncall", **KEY)
    assert hook.subjects == ["[shop/default] a test of OpenDataFlow"]
    odf("run", "clean", code=1)
    left = odf("notify", code=1)
    assert "there is no key here" in left.err
    hook.code = 500
    refused = odf("notify", code=1, **KEY)
    assert "not delivered (error 500)" in refused.err
    hook.code = 200
    answers = [left, refused, odf("notify", "list", "--json"), odf("doctor", "--json", code=None, **KEY)]
    assert not [answer for answer in answers if "T0KEN" in answer.out + answer.err]
    odf("export", "store.jsonl")
    assert "T0KEN" not in (odf.folder / "store.jsonl").read_text()
    renewed = odf("crypt", "rekey", "--for-notify", "oncall", **KEY, NEW_PASSKEY="another long passphrase")
    assert renewed.out.startswith("odf2:")


def test_a_messenger_that_is_away_is_tried_again_and_fails_no_run(odf: Odf, hook: Webhook) -> None:
    tells(odf, f'url = "{hook.url}"')
    hook.code = 503
    (odf.folder / "mended").touch()
    odf("run", "clean")
    (odf.folder / "mended").unlink()
    odf("ready", "raw", "2")
    failed = odf("run", "clean", code=1)
    assert "JOB_FAILED" in failed.err
    odf("notify", code=None)
    (message,) = odf("notify", "list", "--json").data[0]["messages"]
    assert (message["state"], message["problem"]) == ("WAITING", "not delivered (error 503)")


@pytest.mark.fault(22, 31)
def test_no_row_of_the_store_says_where_a_message_goes_or_what_runs(odf: Odf, hook: Webhook) -> None:
    """Messages that somebody inserts go to nobody whom the project's rules do not name for them."""
    tells(odf, f'url = "{hook.url}"')
    script(odf.folder / "bin/evil.sh", "#!/bin/sh\ntouch evil\n")
    odf(
        "dml",
        "insert into incident (kind, cause, why, datasetid, dataid, chunks) values ('late', 'x', 'x', 'raw', '1', 1)",
    )
    for target in ("oncall", "bin/evil.sh", hook.url):
        odf("dml", f"insert into message (incidentid, target, what) values (1, '{target}', 'opened')")
    odf("notify", code=None)
    assert hook.asked == 0
    assert not (odf.folder / "evil").exists()


def test_what_a_log_says_calls_nobody_and_steers_no_terminal(odf: Odf, hook: Webhook) -> None:
    tells(odf, f'url = "{hook.url}"')
    script(odf.folder / "jobs/clean.sh", "#!/bin/sh\nprintf '@everyone <!channel> \\033[2J' >&2; exit 1\n")
    odf("run", "clean", code=1)
    odf("notify", code=None)
    (told,) = hook.told
    text = told["title"] + told["message"]
    assert "@everyone" not in text
    assert "<!channel" not in text
    assert "\x1b" not in text


def test_without_notify_nothing_is_imported_and_nothing_is_written(odf: Odf) -> None:
    odf("run", "clean", code=1)
    assert odf("notify", "list", "--json").data == []
    assert odf("notify", code=2).err.startswith("USAGE: nobody is to be told")
    assert odf("late", "--notify", code=2).err.startswith("USAGE: nobody is to be told")


@pytest.mark.parametrize(
    ("target", "rule", "said"),
    [
        ('url = "slack://T0KEN/B/C"', RULE, "[notify.oncall] url: an address in plain text"),
        ('url = "json://user:T0KEN@127.0.0.1"', RULE, "[notify] oncall.url: this is a password in plain text"),
        ('url = "json://example.org/T0KEN"', RULE, "[notify.oncall] url: an address in plain text"),
        ('encrypted = "T0KEN"', RULE, "[notify.oncall] encrypted: this is not a token"),
        ('command = "../page.sh"', RULE, "is not a file in the project"),
        ('command = "/bin/sh"', RULE, "is not a file in the project"),
        ('command = "a"\nurl = "json://127.0.0.1"', RULE, "expected one of encrypted, url and command"),
        ('command = "a"', RULE.replace("failed", "exploded"), "there is no"),
        ('command = "a"', RULE.replace('["oncall"]', '["nobody"]'), "there is no"),
        ('command = "a"', RULE + 'quiet = "at night"', "is not a range of hours"),
        ('command = "a"', RULE + 'remind = "often"', "is not a duration"),
        ('command = "a"', RULE + 'for = { colour = "red" }', "is not a selector"),
        ('command = "a"', RULE + 'environments = ["moon"]', "there is no"),
        ('command = "a"', RULE + 'why = "x"', "there is no such key"),
    ],
)
def test_what_is_wrong_in_notify_is_named_and_no_secret_is_repeated(
    odf: Odf, target: str, rule: str, said: str
) -> None:
    tells(odf, target, rule)
    answer = odf("status", code=2)
    assert said in answer.err
    assert "T0KEN" not in answer.err


def test_what_is_late_has_an_exit_code_for_those_who_want_one(odf: Odf) -> None:
    toml = BASE.replace(
        '[dataset.raw]\npartition = "number"',
        '[dataset.raw]\npartition = "number"\n[dataset.daily]\npartition = { type = "day", start = "2025-11-12", end = "2025-11-13" }\ndeadline = "06:00"',
    )
    (odf.folder / "dataflow.toml").write_text(toml)
    odf("apply", "--yes")
    late = odf("late", "--json").data
    assert [(each["dataid"], each["sign"]) for each in late["late"]] == [
        ("2025-11-12", "MISSING"),
        ("2025-11-13", "MISSING"),
    ]
    assert late["late"][0]["chain"][0]["state"] == "NOT DELIVERED"
    grouped = odf("late").out.splitlines()
    assert grouped[0].startswith("daily 2025-11-12..2025-11-13 (2 chunks) MISSING, the first for ")
    assert grouped[1].startswith("    daily 2025-11-12..2025-11-13: NOT DELIVERED: ")
    assert odf("late", "daily", "2025-11-13", "--fail-if-late", code=1).out.startswith("daily 2025-11-13 MISSING for ")
    assert "UNKNOWN_DATASET" in odf("late", "nosuch", code=2).err
    assert odf("late", "raw").out.startswith("nothing is late")


def test_a_program_that_leaves_a_child_behind_has_delivered(odf: Odf) -> None:
    odf("run", "clean", code=1)
    tells(odf, 'command = "bin/page.sh"')  # not before: a run gives a messenger that is slow only a moment
    script(odf.folder / "bin/page.sh", "#!/bin/sh\ncat >> told.jsonl\nsleep 600 & echo $! > pid\nexit 0\n")
    odf("notify")
    odf("notify")
    assert len((odf.folder / "told.jsonl").read_text().splitlines()) == 1
    (message,) = odf("notify", "list", "--json").data[0]["messages"]
    assert (message["state"], message["tries"]) == ("SENT", 1)
    until(lambda: not alive(int((odf.folder / "pid").read_text())), "the end of what it left behind")


def test_garbage_in_the_tables_of_messages_is_shown_as_unknown(odf: Odf) -> None:
    tells(odf, 'command = "bin/page.sh"')
    script(odf.folder / "bin/page.sh", PAGE)
    odf("run", "clean", code=1)
    odf("dml", "update incident set opened = 'garbage', chunks = 'x', most = -5")
    odf("dml", "update message set tries = 'zz', written = 'garbage', ended = null")
    assert "since 1970-01-01" in odf("notify", "list").out
    assert odf("notify", "list", "--json").data[0]["most"] == 0
