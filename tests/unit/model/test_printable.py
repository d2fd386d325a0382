"""Text of others without what could steer a terminal."""

from __future__ import annotations

from opendataflow.model.printable import clean, one_line, visible


def test_what_steers_a_terminal_is_taken_out() -> None:
    assert clean("a\x1b]0;title\x07b\x1b[31mc\x9bd\u202ee\tf\ng\r") == "a]0;titleb[31mcde\tf\ng"
    assert one_line("a\n\x1b[2Jb\tc") == "a [2Jb c"


def test_what_steers_a_terminal_can_be_shown() -> None:
    assert visible("a\x1b[31mb\x07\x00\x7f\x9b\u202e\tc\r\nd\re") == "a␛[31mb␇␀␡\\x9b\\u202e\tc\nd␍e"
    assert clean(visible("\x1b]0;title\x07")) == "␛]0;title␇"
