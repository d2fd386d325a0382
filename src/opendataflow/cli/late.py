"""The verb late: what should be READY by now and is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .app import App, Line, one_line, up_to_date
from .common import Whole, verb
from .selectors import selectors
from .tell import tell_late

if TYPE_CHECKING:
    from ..insight.late import Late, Lateness
    from ..model.selector import Selector

_LATE = 1


@verb("late")
@selectors("--since", "--until", "--by", "--cause", "--all")
@click.option("--notify", is_flag=True, help="Tell people by the rules of [notify] in dataflow.toml. For cron.")
@click.option("--fail-if-late", is_flag=True, help="Exit with 1 when anything is late or missing.")
@click.option("-n", "most", type=Whole(1), default=200, show_default=True, help="At most this many chunks.")
def late_verb(app: App, selector: Selector, notify: bool, fail_if_late: bool, most: int) -> int:
    """What should be READY by now and is not, with the chain that holds it up and when it can be expected.

    LATE: its dataset has a deadline, which has passed. MISSING: nobody outside has delivered it, although its dataset is
    expected. REFUSED: it came, and was not taken. What is named first in a chain is what somebody has to deliver, mend
    or wait for. Chunks that were never there are looked for in the last 400 periods of their dataset. Nothing looks by
    itself: call it from cron, or let odf drain --follow do it.

    \b
      odf late
      odf late flights_clean
      odf late --downstream-of flights_raw
      odf late --notify --json
    """
    from ..insight.late import late
    from ..insight.selection import scope
    from ..model.selector import Subject

    if notify and app.project.notify is None:
        raise UsageError("nobody is to be told: there is no [notify] in dataflow.toml", hint="See: odf notify --help")
    with up_to_date(app):
        meant = scope(app.store, selector)
        seen = late(
            app.store,
            lambda name, dataid, status: meant.matches(Subject(name, dataid, None, status)),
            most=most,
        )
    app.show(seen, lambda: _lines(seen), overview=True)
    if notify:
        tell_late(app)
    return _LATE if fail_if_late and seen.late else 0


def _lines(seen: Lateness) -> Iterator[Line]:
    from ..insight.words import count, duration, when

    if not seen.late:
        known = f"; {count(seen.datasets, 'dataset')} looked at" if seen.datasets else ": no dataset has a deadline"
        yield f"nothing is late{known}"
        return

    for each in seen.late:
        yield [
            (f"{each.datasetid} {each.dataid} ", "strong"),
            (each.sign, each.sign),
            (f" for {duration(each.seconds_late)}, due {when(each.due)}{_expected(each)}", ""),
        ]
        for link in each.chain:
            yield f"    {link.datasetid} {link.dataid}: {link.state}: {one_line(link.why)[:300]}"
    if seen.more:
        yield f"there are more; these are the first {len(seen.late):,}: -n N"


def _expected(each: Late) -> str:
    from ..insight.words import duration, when

    if each.expected is not None:
        return f", expected {when(each.expected)}"
    return f", about {duration(each.seconds_left)} of work after that" if each.seconds_left else ""
