"""What a proof tells people to type."""

from __future__ import annotations

from opendataflow.insight.proof import words


def test_every_range_is_named_up_to_what_a_line_holds() -> None:
    assert words([("1", "3"), ("7", "7")]) == "1..3 7"
    assert len(words([(str(n), str(n)) for n in range(100)]).split()) == 20
