"""How a launch ended, in words."""

from __future__ import annotations

import pytest

from opendataflow.run.process.process_end import ProcessEnd, last_lines


@pytest.mark.parametrize(
    ("exit_code", "signal", "timed_out", "cancelled", "ok", "words"),
    [
        (0, None, False, False, True, "exit code 0 after 1.500 s"),
        (3, None, False, False, False, "exit code 3 after 1.500 s"),
        (0, None, True, False, False, "timed out, although its script ended with exit code 0 after 1.500 s"),
        (0, None, False, True, False, "cancelled, although its script ended with exit code 0 after 1.500 s"),
        (3, None, False, True, False, "cancelled, exit code 3 after 1.500 s"),
        (None, 15, False, True, False, "cancelled, ended by signal 15 (SIGTERM) after 1.500 s"),
        (None, 63, False, False, False, "ended by signal 63 (no name) after 1.500 s"),
        (None, None, False, False, False, "cannot be ended after 1.500 s"),
    ],
)
def test_an_end_in_words(exit_code, signal, timed_out, cancelled, ok, words) -> None:
    ended = ProcessEnd(exit_code, signal, timed_out, cancelled, 1.5, "")
    assert (ended.ok, str(ended)) == (ok, words)


def test_the_last_words_are_text_without_colours() -> None:
    data = b"\x1b[31mred\x1b[0m\n\n50 %\r100 %\r\n\x1b]0;title\x07end\x00\n"
    assert last_lines(data) == "red\n50 %\n100 %\nend"
    assert last_lines(b"\n".join(b"%d" % number for number in range(20))) == "12\n13\n14\n15\n16\n17\n18\n19"
