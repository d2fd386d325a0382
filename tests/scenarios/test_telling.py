"""Telling people: by a real web server on this machine, by real processes, on both stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opendataflow import Store
from opendataflow.notify.looking import look
from opendataflow.notify.sending import MessageSender, Sent
from opendataflow.project import Project, load
from opendataflow.secrets import Hidden
from tests.support.odf import Odf
from tests.support.webhook import Webhook, webhook

PROJECT = """
[project]
name = "shop"
[dataset.raw]
partition = {{ type = "day", start = "2025-11-12", end = "2025-11-14" }}
deadline = "06:00"
[dataset.orders]
partition = "day"
[dataset.report]
partition = "day"
[job.clean]
reads = ["raw"]
writes = ["orders"]
[job.sum]
reads = ["orders"]
writes = ["report"]
[notify.oncall]
url = "{url}"
[[notify.rule]]
on = ["failed", "recovered", "late"]
to = ["oncall"]
remind = "0.000001s"
"""
# Waits for its answer however long that takes, where a messenger gives up and the message is sent again.
PATIENT = """#!{python}
import json, os, urllib.request
told = {{"title": os.environ["ODF_NOTIFY_SUBJECT"], "message": ""}}
urllib.request.urlopen("{url}", json.dumps(told).encode())
"""
FAILS = '#!/bin/sh\necho "cannot reach the warehouse for $dataid" >&2\ntest -e mended\n'


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


@pytest.fixture
def odf(tmp_path: Path, store_url: str, hook: Webhook) -> Odf:
    """A project that tells the web server, with a job that fails until it is mended."""
    folder = tmp_path / "project"
    (folder / "jobs").mkdir(parents=True)
    (folder / "dataflow.toml").write_text(PROJECT.format(url=hook.url))
    for name, code in (("clean", FAILS), ("sum", "#!/bin/sh\n")):
        (folder / f"jobs/{name}.sh").write_text(code)
        (folder / f"jobs/{name}.sh").chmod(0o755)
    odf = Odf(folder, store_url)
    odf("migrate", "--store", store_url)
    odf("apply", "--yes")
    return odf


def told_in_the_end(odf: Odf, hook: Webhook, n: int, last: str = "") -> None:
    """Whoever comes next sends what is left, once the lease of one who died is over; reminders may come before the last."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        if len(hook.told) >= n and hook.subjects[-1].startswith(last):
            return
        odf("notify", code=None)
        time.sleep(0.2)


def project_of(odf: Odf) -> Project:
    return load(odf.folder / "dataflow.toml")


def send(store: Store, odf: Odf) -> Sent:
    return MessageSender(store, project_of(odf), None, Hidden()).send_due()


def test_a_messenger_that_hangs(odf: Odf, hook: Webhook) -> None:
    """The web server takes every message and answers none. A drain runs its three chunks, which fail, and ends; it says that
    somebody is not told yet. The next one, with the server mended, tells of all three in one message."""
    odf("ready", "raw", "2025-11-12..2025-11-14")
    hook.hang()
    drained = odf("drain", code=1)
    assert not hook.let_go.is_set(), "nobody was answered while the drain ran"
    assert hook.told == []
    assert "3 JOB_FAILED" in drained.out
    assert "somebody is not told yet" in drained.err
    assert [each["state"] for each in odf("notify", "list", "--json").data[0]["messages"]] != ["SENT"]
    hook.go_on()
    before = len(hook.told)  # what hung may have been answered, and nobody was there to hear it: at least once
    told_in_the_end(odf, hook, before + 1)
    assert "3 chunks FAILED" in hook.subjects[-1]
    assert "cannot reach the warehouse" in hook.told[-1]["message"]
    assert "3 chunks are waiting behind" in hook.told[-1]["message"]
    (odf.folder / "mended").touch()
    odf("resubmit", "--failed", "--yes")
    odf("drain")
    told_in_the_end(odf, hook, before + 2, "[shop/default] over:")
    assert hook.subjects[-1] == "[shop/default] over: 3 chunks were FAILED"


def test_a_late_file_that_arrives_while_its_reminder_is_being_sent(
    odf: Odf, hook: Webhook, open_again: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the 14th is late, and somebody was told. While a reminder is on its way to a web server that is slow to
    answer, the file arrives. Another machine sees that it is over, and keeps that back until the reminder is through:
    one message that it is over, and no reminder after it."""
    here, there = open_again(who="here"), open_again(who="there")
    here.announce("raw", ["2025-11-12", "2025-11-13"])
    look(here, project_of(odf), with_late=True)
    assert send(here, odf).sent == 1
    look(here, project_of(odf), with_late=True)  # it is still late: time for a reminder
    hook.hang()
    # A messenger gives up after a few seconds: this one has more patience than a busy machine needs.
    address_of = MessageSender._address
    monkeypatch.setattr(MessageSender, "_address", lambda self, target: f"{address_of(self, target)}?rto=300")
    reminding = threading.Thread(target=send, args=(here, odf))
    reminding.start()
    assert hook.came.wait(30)
    there.announce("raw", ["2025-11-14"])
    assert look(there, project_of(odf), with_late=True).closed == 1
    assert send(there, odf).sent == 0, "the reminder is not through yet"
    hook.go_on()
    reminding.join()
    for machine in (there, here):
        look(machine, project_of(odf), with_late=True)
        send(machine, odf)
    assert [("still late" in each, "over" in each) for each in hook.subjects] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_a_reminder_whose_sender_died_is_not_sent_after_the_end(
    odf: Odf, hook: Webhook, open_again: Callable[..., Store]
) -> None:
    """The sender of a reminder dies with it in hand. The file arrives before its lease is over: whoever comes next says only
    that it is over."""
    here, there = open_again(who="here"), open_again(who="there")
    here.announce("raw", ["2025-11-12", "2025-11-13"])
    look(here, project_of(odf), with_late=True)
    send(here, odf)
    look(here, project_of(odf), with_late=True)
    assert here.incidents.take_message("oncall", 0.000001) is not None  # and nothing more is heard of it
    there.announce("raw", ["2025-11-14"])
    look(there, project_of(odf), with_late=True)
    send(there, odf)
    send(there, odf)
    assert ["over" in each for each in hook.subjects] == [False, True]
    assert there.incidents.unsent() == []


def test_two_machines_do_not_tell_twice(odf: Odf, hook: Webhook) -> None:
    """Three chunks fail. Four processes look and send at the same time: one message, and one when it is over."""
    odf("ready", "raw", "2025-11-12..2025-11-14")
    toml = odf.folder / "dataflow.toml"
    whole = toml.read_text()
    toml.write_text(whole.partition("[notify.oncall]")[0])  # nobody is told by the drain itself
    odf("drain", code=1)
    (odf.folder / "tell.py").write_text(PATIENT.format(python=sys.executable, url=hook.url.replace("json", "http")))
    (odf.folder / "tell.py").chmod(0o755)
    whole = whole.replace(f'url = "{hook.url}"', 'command = "tell.py"')
    toml.write_text(whole.replace('remind = "0.000001s"\n', ""))
    several(odf, "notify")
    told_in_the_end(odf, hook, 1)
    assert len(hook.told) == 1
    (odf.folder / "mended").touch()
    odf("resubmit", "--failed", "--yes")
    several(odf, "drain")
    several(odf, "notify")
    told_in_the_end(odf, hook, 2)
    assert ["over" in each for each in hook.subjects] == [False, True]


def several(odf: Odf, verb: str, n: int = 4) -> None:
    """The same command by several processes at once."""
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(odf(verb, code=None).code)) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == n


DIES = """
import os, signal, sys
from pathlib import Path
import opendataflow
from opendataflow.notify.looking import look
from opendataflow.project import load
with opendataflow.open(sys.argv[1]) as store:
    look(store, load(Path("dataflow.toml")))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_between_writing_and_sending_loses_none(
    odf: Odf, hook: Webhook, open_again: Callable[..., Store]
) -> None:
    """A worker writes that somebody has to be told, and is killed before it sends anything. The next one, which finds nothing
    new, sends it. One that is killed in the middle of sending leaves it too, for whoever comes when its lease is over."""
    store = open_again()
    store.announce("raw", ["2025-11-12", "2025-11-13", "2025-11-14"])
    [claim] = store.claim("clean")
    store.fail(claim, detail="the disk is full")
    killed = subprocess.run([sys.executable, "-c", DIES, odf.store_url], cwd=odf.folder, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [each.state for each in store.incidents.unsent()] == ["WAITING"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
    while [each.state for each in store.incidents.unsent()] != [
        "SENDING"
    ]:  # on a busy machine one may have given up before
        store.dml("update message set not_before = 0")
        hook.hang()
        sending = subprocess.Popen(
            [sys.executable, "-m", "opendataflow", "notify"],
            cwd=odf.folder,
            env=environ | {"ODF_STORE": odf.store_url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert hook.came.wait(240)
        sending.kill()
        sending.wait()
    store.dml("update message set lease_until = 0")
    hook.go_on()
    before = len(hook.told)
    told_in_the_end(odf, hook, before + 1)
    assert store.incidents.unsent() == []
    assert all("the disk is full" in each for each in hook.subjects)
