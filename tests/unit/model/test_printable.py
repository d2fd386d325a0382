"""Text of others without what could steer a terminal."""

from __future__ import annotations

from opendataflow.model.printable import clean, one_line


def test_what_steers_a_terminal_is_taken_out() -> None:
    assert clean("a\x1b]0;title\x07b\x1b[31mc\x9bd\u202ee\tf\ng\r") == "a]0;titleb[31mcde\tf\ng"
    assert one_line("a\n\x1b[2Jb\tc") == "a [2Jb c"
