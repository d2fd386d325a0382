"""What is shown holds no secret, in whatever encoding and wherever a stream is cut."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import subprocess
import time
from typing import Any
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
        AWKWARD.encode().hex(),
        AWKWARD.encode().hex().upper(),
        AWKWARD.replace("'", "''"),
        AWKWARD.replace('"', '""'),
        html.escape(AWKWARD),
        html.escape(AWKWARD, quote=False),
        html.escape(AWKWARD).replace("&#x27;", "&apos;"),
        html.escape(AWKWARD).replace("&#x27;", "&#39;").replace("ö", "&ouml;"),
        html.escape(AWKWARD).replace("ö", "&#246;"),
        html.escape(AWKWARD).replace("ö", "&#xF6;"),
        re.sub("""[&<>"']""", lambda mark: f"&#{ord(mark[0])};", AWKWARD),
        re.sub("""[&<>"']""", lambda mark: f"&#x{ord(mark[0]):x};", AWKWARD),
        "".join(f"&#{ord(letter)};" for letter in AWKWARD),
        "".join(f"&#x{ord(letter):X};" for letter in AWKWARD),
    ],
)  # fmt: skip
def test_a_secret_is_redacted_in_every_usual_encoding(shown: str) -> None:
    assert Redactor([AWKWARD]).redact(f"<{shown}>") == "<[redacted]>"


@pytest.mark.parametrize("user", ["", "e", "et", "etl", "etl_user"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_password_is_redacted_inside_base64_of_user_and_password(user: str, encode: Any) -> None:
    password = "hunter2??>>~~"
    header = f"Authorization: Basic {encode(f'{user}:{password}@host'.encode()).decode()}"
    shown = Redactor([password]).redact(header)
    assert shown.count("[redacted]") == 1
    left = shown.removeprefix("Authorization: Basic ").split("[redacted]")
    # What is left decodes to nothing of the password but bits of its first and last character.
    assert all("unter2" not in _decoded(part, at) for part in left for at in range(4))
    assert sum(map(len, left)) <= len(base64.b64encode(f"{user}:@host".encode())) + 4


def _decoded(part: str, at: int) -> str:
    letters = part[at:].rstrip("=").translate(str.maketrans("+/", "-_"))
    return base64.urlsafe_b64decode(letters[: len(letters) // 4 * 4]).decode("latin-1")


@pytest.mark.parametrize("columns", [60, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", range(0, 90, 7))
def test_a_secret_in_wrapped_base64_or_hex_is_redacted_wherever_the_line_ends(
    columns: int, end: str, before: int
) -> None:
    secret = "correct horse battery staple"
    text = b"x" * before + secret.encode() + b"y" * 90
    for encoded in (base64.b64encode(text).decode(), text.hex(), text.hex().upper()):
        wrapped = end.join(encoded[at : at + columns] for at in range(0, len(encoded), columns)) + end
        shown = Redactor([secret]).redact(f"-----BEGIN-----{end}{wrapped}")
        assert shown.count("[redacted]") == 1
        raw = f"-----BEGIN-----{end}{wrapped}".encode()
        assert len(raw) - len(shown) + len("[redacted]") >= len(secret) * 8 // 6 - 1
        for step in (1, 3, 50, 64):
            assert (
                streamed(Redactor([secret]), [raw[at : at + step] for at in range(0, len(raw), step)]).decode() == shown
            )


def test_the_end_of_an_ordinary_line_is_not_held_back() -> None:
    redactor = Redactor(["hunter2"])
    assert redactor.feed(b"a line of words that ends like a secret begins: aHVu\n") == (
        b"a line of words that ends like a secret begins: aHVu\n"
    )


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
    began = time.process_time()
    assert streamed(redactor, [line] * (1_000_000 // len(line)))[: len(line)] == line
    assert time.process_time() - began < 5


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


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_stream_of_wrapped_lines_cut_anywhere_equals_the_whole_text_redacted(data: st.DataObject) -> None:
    secret = "zyx" * data.draw(st.integers(2, 20))
    text = data.draw(st.text("xyz", max_size=120)) + secret + data.draw(st.text("xyz", max_size=120))
    encoded = data.draw(st.sampled_from([base64.b64encode(text.encode()).decode(), text.encode().hex()]))
    columns, end = data.draw(st.sampled_from([47, 48, 64, 76])), data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    raw = end.join(encoded[at : at + columns] for at in range(0, len(encoded), columns)).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    chunks = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    whole = Redactor([secret]).redact(raw.decode())
    assert streamed(Redactor([secret]), chunks).decode() == whole
    if columns >= 48 and end != "\r":
        assert "[redacted]" in whole


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
