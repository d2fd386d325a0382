"""The option --at: a look into the past."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from .app import App, Line

at_option = click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="As it was then: 2026-11-13T18:00, 03:00, 2h (ago), yesterday.",
)


def moment_of(app: App, text: str | None) -> datetime | None:
    """The moment that --at names, in the project's time zone; BadTime when it is none, or is still to come."""
    if text is None:
        return None
    from ..model.moment import parse_past
    from ..model.timezone import time_zone

    return parse_past(text, datetime.now(UTC), time_zone(app.project.timezone, "[project] timezone"))


def remark_lines(remarks: tuple[str, ...]) -> list[Line]:
    """What an answer does not know or leaves out."""
    return [[(remark, "faint")] for remark in remarks]
