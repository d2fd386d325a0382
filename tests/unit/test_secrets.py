"""Secrets open with the right key in the right place and nowhere else, and appear in nothing we show."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import os
import pickle
import shlex
import stat
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendataflow import secrets
from opendataflow.errors import BadConfig, BadKey, UsageError
from opendataflow.secrets import Key, Redactor

JAVA = "ZpLfE+uTYE2mdmjOPrukol3yu+cpAHBnmL6trHa9PHGj"
HERE = "dataset/orders_pg/encryptedpass"
PLAINTEXT = "hunter2-Straße"
KEY = Key("correct horse")
OURS = {**os.environ, "PYTHONPATH": str(Path(secrets.__file__).parents[1])}


@pytest.fixture(scope="module")
def token() -> str:
    return secrets.encrypt(PLAINTEXT, KEY, HERE)


@pytest.fixture(scope="module")
def cheap_token() -> str:
    return secrets._seal(PLAINTEXT, KEY, HERE, secrets._WEAKEST, b"s" * 16)


def refusal(token: str, key: Key = KEY, context: str = HERE) -> str:
    with pytest.raises(BadKey) as caught:
        secrets.decrypt(token, key, context)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_importing_the_room_does_not_import_cryptography() -> None:
    code = "import sys, opendataflow.secrets; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=OURS).returncode == 0


def test_a_secret_opens_again_with_its_key_and_context(token: str) -> None:
    assert token.startswith("odf1:")
    assert token.isascii()
    assert token.isprintable()
    assert secrets.decrypt(token, KEY, HERE) == PLAINTEXT
    assert secrets.decrypt(token + "\n", KEY, HERE) == PLAINTEXT


@pytest.mark.parametrize("plaintext", ["", "x", "a\nb\0c", "\udcff not utf-8", "é" * 5000])
def test_any_text_survives_the_round_trip(plaintext: str) -> None:
    assert secrets.decrypt(secrets.encrypt(plaintext, KEY, HERE), KEY, HERE) == plaintext


def test_two_tokens_of_one_secret_differ(token: str) -> None:
    assert secrets.encrypt(PLAINTEXT, KEY, HERE) != token


def test_a_token_holds_neither_plaintext_nor_key(token: str) -> None:
    raw = base64.urlsafe_b64decode(token.removeprefix("odf1:") + "==")
    assert PLAINTEXT.encode() not in raw
    assert b"correct horse" not in raw


def test_wrong_key_tampering_swapping_and_garbage_are_refused_with_one_and_the_same_message(cheap_token: str) -> None:
    flipped = cheap_token[:-5] + ("A" if cheap_token[-5] != "A" else "B") + cheap_token[-4:]
    refusals = {
        refusal(cheap_token, Key("wrong")),
        refusal(flipped),
        refusal(cheap_token[:-8]),
        refusal(cheap_token[:20]),
        refusal(JAVA, Key("wrong")),
        refusal(JAVA[:-4], Key("plugh")),
        *map(refusal, ["", "odf1:", "odf1:*", "odf2:" + cheap_token[5:], "no such thing", "ünï", "odf1:" + "A" * 400]),
    }
    assert len(refusals) == 1
    message = refusals.pop()
    assert HERE in message
    assert "PASSKEY" in message
    moved = "dataset/customers_pg/encryptedpass"
    assert refusal(cheap_token, KEY, moved) == message.replace(HERE, moved)


def test_no_single_character_of_a_token_can_be_changed(cheap_token: str) -> None:
    # Beyond the header and salt, which would cost one derivation each.
    for at in [6, 10, 20, *range(60, len(cheap_token))]:
        changed = cheap_token[:at] + ("A" if cheap_token[at] != "A" else "Q") + cheap_token[at + 1 :]
        refusal(changed)


def test_a_refusal_shows_neither_token_nor_key_nor_plaintext(cheap_token: str) -> None:
    key = Key("swordfish")
    with pytest.raises(BadKey) as caught:
        secrets.decrypt(cheap_token, key, HERE)
    shown = "".join(traceback.format_exception(caught.value))
    inner = caught.tb.tb_next
    shown_with_locals = "".join(traceback.StackSummary.extract(traceback.walk_tb(inner), capture_locals=True).format())
    assert "decrypt" in shown_with_locals
    for hidden in ("sword" + "fish", PLAINTEXT):
        assert hidden not in shown_with_locals
    for hidden in (cheap_token, cheap_token[10:30], PLAINTEXT):
        assert hidden not in shown


@pytest.mark.parametrize("cost", [(2**32 - 1, 2, 1), (2**30, 255, 255), (128 * 1024, 255, 1), (8, 1, 1), (0, 0, 0)])
def test_a_hostile_cost_is_refused_without_being_paid(cheap_token: str, cost: tuple[int, int, int]) -> None:
    raw = base64.urlsafe_b64decode(cheap_token.removeprefix("odf1:") + "==")
    hostile = "odf1:" + base64.urlsafe_b64encode(struct.pack(">IBB", *cost) + raw[6:]).decode().rstrip("=")
    derivations = secrets._derive.cache_info().misses
    refusal(hostile)
    assert secrets._derive.cache_info().misses == derivations


def test_a_guess_costs_at_least_a_tenth_of_a_second() -> None:
    secrets._derive(Key("warm up"), b"w" * 16, secrets._WEAKEST)
    times = []
    for guess in "abc":
        began = time.perf_counter()
        secrets._derive(Key(guess), b"s" * 16, secrets._COST)
        times.append(time.perf_counter() - began)
    assert min(times) >= 0.1


def test_many_secrets_of_one_process_cost_one_derivation() -> None:
    key = Key("shared by many")
    secrets.encrypt("first", key, HERE)
    derivations = secrets._derive.cache_info().misses
    assert [secrets.decrypt(secrets.encrypt(f"{n}", key, HERE), key, HERE) for n in range(50)] == [
        f"{n}" for n in range(50)
    ]
    assert secrets._derive.cache_info().misses == derivations


def test_the_java_tools_value_is_read() -> None:
    assert secrets.is_java(JAVA)
    assert secrets.decrypt(JAVA, Key("plugh"), HERE) == "plugh"


def test_our_own_token_and_plain_words_are_not_javas(token: str) -> None:
    assert not any(map(secrets.is_java, [token, "", "plugh", "cGx1Z2g=", JAVA[:-1]]))


def test_javas_outdated_and_unreadable_tokens_need_a_rekey_and_todays_do_not(token: str, cheap_token: str) -> None:
    assert secrets.needs_rekey(JAVA)
    assert secrets.needs_rekey(cheap_token)
    assert secrets.needs_rekey("garbage")
    assert not secrets.needs_rekey(token)


def test_rekey_moves_a_secret_to_the_new_key_and_todays_form(cheap_token: str) -> None:
    new = Key("battery staple")
    for old_token, old, plaintext in [(JAVA, Key("plugh"), "plugh"), (cheap_token, KEY, PLAINTEXT)]:
        moved = secrets.rekey(old_token, old, new, HERE)
        assert not secrets.needs_rekey(moved)
        assert secrets.decrypt(moved, new, HERE) == plaintext
        refusal(moved, old)


def test_rekey_with_the_wrong_old_key_is_refused() -> None:
    with pytest.raises(BadKey):
        secrets.rekey(JAVA, Key("wrong"), KEY, HERE)


def test_a_key_never_shows_its_passphrase() -> None:
    key = Key("swordfish")

    @dataclasses.dataclass
    class Holder:
        key: Key

    for shown in (repr(key), str(key), f"{key}", f"{key!r}", repr([key]), repr(Holder(key)), str(hash(key))):
        assert "swordfish" not in shown
    assert not hasattr(key, "__dict__")


def test_a_key_is_neither_pickled_nor_copied_nor_made_json() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            attempt(Key("swordfish"))
        assert "swordfish" not in str(caught.value)


def test_keys_are_equal_when_their_passphrases_are() -> None:
    assert Key("a") == Key("a")
    assert hash(Key("a")) == hash(Key("a"))
    assert Key("a") != Key("b")
    assert Key("a") != "a"


def test_an_empty_or_impossible_key_is_refused() -> None:
    for passphrase in ("", "\ud800"):
        with pytest.raises(UsageError) as caught:
            Key(passphrase)
        assert caught.value.__context__ is None


def key_file(directory: Path, content: bytes, mode: int = 0o600) -> str:
    path = directory / "pass key"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_no_variable_means_no_key() -> None:
    assert secrets.find_key({}) is None
    assert secrets.find_key({"PASSKEY": "", "PASSKEY_FILE": ""}) is None


def test_the_key_comes_from_the_environment_a_file_or_a_command_in_that_order(tmp_path: Path) -> None:
    everything = {
        "PASSKEY": "one",
        "PASSKEY_FILE": key_file(tmp_path, b"two\n"),
        "PASSKEY_COMMAND": shlex.join([sys.executable, "-c", "print('three')"]),
    }
    assert secrets.find_key(everything) == Key("one")
    del everything["PASSKEY"]
    assert secrets.find_key(everything) == Key("two")
    del everything["PASSKEY_FILE"]
    assert secrets.find_key(everything) == Key("three")


@pytest.mark.parametrize(
    ("content", "passphrase"),
    [(b"k", "k"), (b"k\n", "k"), (b"k\r\n", "k"), (b"k\n\n", "k\n"), (b" k ", " k "), (b"\xff", "\udcff")],
)
def test_exactly_one_line_end_is_taken_off_a_key_file(tmp_path: Path, content: bytes, passphrase: str) -> None:
    assert secrets.find_key({"PASSKEY_FILE": key_file(tmp_path, content)}) == Key(passphrase)


def test_a_key_file_open_to_everyone_is_refused_with_the_line_that_closes_it(tmp_path: Path) -> None:
    path = key_file(tmp_path, b"swordfish\n", 0o644)
    with pytest.raises(BadConfig) as caught:
        secrets.find_key({"PASSKEY_FILE": path})
    assert caught.value.hint == f"chmod 600 '{path}'"
    assert "swordfish" not in str(caught.value)
    subprocess.run(shlex.split(caught.value.hint), check=True)
    assert secrets.find_key({"PASSKEY_FILE": path}) == Key("swordfish")


def test_a_key_file_that_is_missing_empty_or_no_file_is_a_configuration_error(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none"), key_file(tmp_path, b"\n"), str(tmp_path)):
        with pytest.raises(BadConfig) as caught:
            secrets.find_key({"PASSKEY_FILE": path})
        assert caught.value.__context__ is None
        assert caught.value.hint


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sh -c 'echo swordfish; echo swordfish >&2; exit 7'", "exit code 7"),
        ("no-such-program swordfish", "No such file"),
        ("echo 'swordfish", "command line"),
        ("  ", "command line"),
        ("true", "empty"),
    ],
)
def test_a_failing_key_command_is_told_without_its_line_or_its_output(command: str, told: str) -> None:
    with pytest.raises(BadConfig) as caught:
        secrets.find_key({"PASSKEY_COMMAND": command, "PATH": os.environ["PATH"]})
    assert told in str(caught.value)
    assert "swordfish" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_key_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_TIMEOUT", 0.2)
    with pytest.raises(BadConfig, match=r"0\.2 s"):
        secrets.find_key({"PASSKEY_COMMAND": "sleep 60", "PATH": os.environ["PATH"]})


def test_a_key_command_runs_without_a_shell(tmp_path: Path) -> None:
    environ = {"PASSKEY_COMMAND": f"echo $HOME; touch {tmp_path}/made", "PATH": os.environ["PATH"]}
    assert secrets.find_key(environ) == Key(f"$HOME; touch {tmp_path}/made")
    assert not (tmp_path / "made").exists()


def test_a_missing_key_is_refused_with_the_variables_that_may_hold_it() -> None:
    with pytest.raises(BadKey) as caught:
        secrets.require_key({}, "dataset orders_pg")
    assert "dataset orders_pg" in caught.value.message
    assert all(name in caught.value.hint for name in secrets.KEY_VARIABLES)
    assert secrets.require_key({"PASSKEY": "k"}, "x") == Key("k")


def test_a_child_gets_the_environment_without_the_key() -> None:
    environ = {"PASSKEY": "a", "PASSKEY_FILE": "b", "PASSKEY_COMMAND": "c", "HOME": "/h", "PASSKEYS": "d"}
    assert secrets.child_environment(environ) == {"HOME": "/h", "PASSKEYS": "d"}
    assert environ["PASSKEY"] == "a"


def streamed(redactor: Redactor, chunks: list[bytes]) -> bytes:
    return b"".join([*map(redactor.feed, chunks), redactor.flush()])


AWKWARD = "p'a \"s/s\\wö&rd?+\n"


@pytest.mark.parametrize(
    "shown",
    [
        AWKWARD,
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote_plus(AWKWARD),
        quote(AWKWARD, safe="").replace("%2F", "%2f").replace("%5C", "%5c").replace("%C3", "%c3").replace("%B6", "%b6")
        .replace("%3F", "%3f").replace("%2B", "%2b").replace("%0A", "%0a"),
        base64.b64encode(AWKWARD.encode()).decode(),
        base64.b64encode(AWKWARD.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(AWKWARD.encode()).decode(),
        json.dumps(AWKWARD)[1:-1],
        json.dumps(AWKWARD, ensure_ascii=False)[1:-1],
        shlex.quote(AWKWARD)[1:-1],
        repr(AWKWARD)[1:-1],
        AWKWARD.replace("'", "'\\''"),
    ],
)  # fmt: skip
def test_a_secret_is_redacted_in_every_usual_encoding(shown: str) -> None:
    assert Redactor([AWKWARD]).redact(f"<{shown}>") == "<[redacted]>"


def test_what_a_tracing_shell_prints_is_redacted() -> None:
    for secret in ("it's $ecret", "sp ace", "back\\slash", 'dou"ble'):
        traced = subprocess.run(
            ["bash", "-xc", 'true "$S"; printf \'%q\' "$S" >&2'], env={"S": secret}, capture_output=True, check=True
        ).stderr
        assert streamed(Redactor([secret]), [traced]).count(b"[redacted]") == 3


def test_a_key_is_redacted_too() -> None:
    assert Redactor([Key("swordfish")]).redact("a swordfish swims") == "a [redacted] swims"


def test_overlapping_secrets_leave_nothing_of_each_other() -> None:
    assert Redactor(["hunter", "hunter22"]).redact("hunter22 hunter2") == "[redacted] [redacted]2"
    assert Redactor(["xabc", "abcdefgh"]).redact("xabcdefgh.") == "[redacted]."
    assert Redactor(["abcd"]).redact("abcdabcd") == "[redacted][redacted]"


def test_a_short_secret_is_redacted_as_a_whole_word_and_an_empty_one_not_at_all() -> None:
    redactor = Redactor(["abc", ""])
    assert redactor.redact("abc abcd xabc pw=abc;abc") == "[redacted] abcd xabc pw=[redacted];[redacted]"
    assert streamed(redactor, [b"xa", b"bc abc", b"d ab", b"c"]) == b"xabc abcd [redacted]"
    assert Redactor([""]).redact("nothing to hide") == "nothing to hide"


def test_any_text_can_be_redacted() -> None:
    for text in ("\udcff hunter2", "\ud800 hunter2", "\0 hunter2"):
        assert Redactor(["hunter2"]).redact(text) == text.replace("hunter2", "[redacted]")


def test_only_a_tail_that_may_begin_a_secret_is_held_back() -> None:
    redactor = Redactor(["hunter2"])
    assert redactor.feed(b"Password: ") == b"Password: "
    assert redactor.feed(b"hun") == b""
    assert redactor.feed(b"ger ") == b"hunger "
    assert redactor.feed(b"hunter2") == b"[redacted]"
    assert redactor.feed(b"hunter") == b""
    assert redactor.flush() == b"hunter"


def test_redacting_a_text_leaves_the_stream_alone() -> None:
    redactor = Redactor(["hunter2"])
    redactor.feed(b"hun")
    assert redactor.redact("ter2") == "ter2"
    assert redactor.feed(b"ter2") == b"[redacted]"


def test_a_megabyte_of_log_is_redacted_in_seconds() -> None:
    redactor = Redactor([f"secret-{n}-{AWKWARD}" for n in range(20)])
    line = b"2025-01-01 INFO some service said something of some length\n"
    began = time.perf_counter()
    assert streamed(redactor, [line] * (1_000_000 // len(line)))[: len(line)] == line
    assert time.perf_counter() - began < 5


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_stream_cut_anywhere_shows_no_secret_and_equals_the_whole_text_redacted(data: st.DataObject) -> None:
    # A small alphabet makes secrets overlap; none of it is in the mark, which could otherwise spell a secret itself.
    letters = st.text("xyz'ö ", max_size=6)
    hidden = data.draw(st.lists(letters, min_size=1, max_size=4))
    pieces = st.sampled_from(hidden) | letters | st.sampled_from(hidden).map(quote)
    text = "".join(data.draw(st.lists(pieces, max_size=12)))
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    redactor = Redactor(hidden)
    shown = streamed(redactor, chunks)
    assert shown.decode() == redactor.redact(text)
    assert not any(secret.encode() in shown for secret in hidden if len(secret) >= 4)
    assert streamed(redactor, chunks) == shown


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=4, max_size=30), st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 5))
def test_any_secret_amid_any_bytes_is_gone(secret: str, before: bytes, after: bytes, step: int) -> None:
    try:
        value = secret.encode()
    except UnicodeEncodeError:
        return
    raw = before + value + after
    shown = streamed(Redactor([secret]), [raw[at : at + step] for at in range(0, len(raw), step)])
    # 0xFF is in no UTF-8, so that what stood around the secret does not join to another one.
    assert value not in shown.replace(b"[redacted]", b"\xff")
    assert b"[redacted]" in shown


def test_a_secret_file_is_private_readable_by_a_shell_and_gone_afterwards(tmp_path: Path) -> None:
    values = {"PW": AWKWARD + "$HOME `id`", "_n2": "", "Z": "\udcff"}
    with secrets.secret_file(tmp_path, values) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.parent == tmp_path
        script = f'. {shlex.quote(str(path))}; printf \'%s|%s|%s\' "$PW" "$_n2" "$Z"'
        read = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
        assert read == os.fsencode("|".join(values.values()))
        assert secrets.sweep_secret_files(tmp_path) == 0
        assert path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_secret_file_is_gone_after_an_error_and_may_be_removed_by_the_job(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), secrets.secret_file(tmp_path, {"A": "b"}):
        raise ZeroDivisionError
    with secrets.secret_file(tmp_path, {"A": "b"}) as path:
        path.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("values", [{"A B": "x"}, {"1A": "x"}, {"A\n": "x"}, {"A;id": "x"}, {"A": "swordfish\0"}])
def test_what_a_shell_cannot_read_is_refused_and_leaves_no_file(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught, secrets.secret_file(tmp_path, values):
        pass
    assert "swordfish" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_secret_file_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from opendataflow.secrets import secret_file\n"
        "with secret_file(sys.argv[1], {'A': 'swordfish'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=OURS)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "other").write_text("kept")
    assert secrets.sweep_secret_files(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
