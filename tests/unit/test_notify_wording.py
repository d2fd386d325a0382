"""What a message says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opendataflow.model.timezone import time_zone
from opendataflow.notify.wording import About, text_of
from opendataflow.store.incidents import Incident, Member

OPENED = datetime(2026, 11, 14, 2, 2, tzinfo=UTC)
NOW = OPENED + timedelta(hours=2)
ABOUT = About("shop", "prod", time_zone("Europe/Berlin"), behind=34)
MEMBERS = [Member("orders", f"2026-11-{day}", "clean", "FAILED") for day in range(10, 20)]


def incident(**changed: object) -> Incident:
    why = "JOB_FAILED: exit code 3: the disk is full"
    made = Incident(7, "failed", "cause", why, "orders", "2026-11-10", "clean", 12, 12, OPENED, None)
    return made._replace(**changed)  # type: ignore[arg-type]


def test_the_first_message_says_what_broke_since_when_what_waits_and_where_to_look() -> None:
    text = text_of(incident(), MEMBERS, "opened", ABOUT, NOW)
    assert text.subject == "[shop/prod] 12 chunks FAILED: JOB_FAILED: exit code 3: the disk is full"
    assert text.body.splitlines() == [
        "12 chunks are FAILED, since 2026-11-14 03:02 CET.",
        "Reason: JOB_FAILED: exit code 3: the disk is full",
        "The first: orders 2026-11-10, by job clean.",
        "They are: orders 2026-11-10, orders 2026-11-11, orders 2026-11-12, orders 2026-11-13, orders 2026-11-14, …",
        "34 chunks are waiting behind.",
        "",
        "To look at it:",
        "  odf recover",
        "  odf explain orders 2026-11-10",
    ]
    assert text.type == "failure"


def test_a_reminder_says_how_long_it_lasts() -> None:
    assert text_of(incident(), MEMBERS, "reminder", ABOUT, NOW).subject.startswith(
        "[shop/prod] 12 chunks still FAILED after 2.0 h: "
    )


def test_the_end_says_how_long_it_took() -> None:
    text = text_of(incident(chunks=0, closed=NOW), [], "over", ABOUT, NOW)
    assert text.subject == "[shop/prod] over: 12 chunks were FAILED"
    assert text.body.startswith("It is over after 2.0 h")
    assert text.type == "success"


def test_a_reason_of_any_length_fits_and_is_one_line() -> None:
    text = text_of(incident(why="x\n" * 5000), [], "opened", ABOUT, NOW)
    assert len(text.subject) <= 160
    assert "\n" not in text.subject
    assert len(text.body) < 2000


def test_what_is_late_points_to_odf_late() -> None:
    assert "  odf late" in text_of(incident(kind="late"), [], "opened", ABOUT, NOW).body
