"""What is shown holds no secret, in whatever encoding and wherever a stream is cut."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendataflow.secrets import Key, Redactor


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
