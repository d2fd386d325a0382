"""The verb late: what should be READY by now and is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .app import App, Line, one_line, up_to_date
from .common import Whole, verb
from .selectors import selectors
from .tell import tell_late

if TYPE_CHECKING:
    from ..insight.late import Late, Lateness
    from ..model import Catalogue
    from ..model.selector import Selector

_LATE = 1


@verb("late")
@selectors("--since", "--until", "--by", "--cause", "--all")
@click.option("--notify", is_flag=True, help="Tell people by the rules of [notify] in dataflow.toml. For cron.")
@click.option("--fail-if-late", is_flag=True, help="Exit with 1 when anything is late or missing.")
@click.option("-n", "most", type=Whole(1), default=200, show_default=True, help="At most this many chunks.")
def late_verb(app: App, selector: Selector, notify: bool, fail_if_late: bool, most: int) -> int:
    """What should be READY by now and is not, with the chain that holds it up and when it can be expected.

    LATE: its dataset has a deadline, which has passed. MISSING: it is not there, although its dataset is
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
        meant, catalogue = scope(app.store, selector), app.store.catalogue()
        seen = late(
            app.store,
            lambda name, dataid, status: meant.matches(Subject(name, dataid, None, status)),
            most=most,
        )
    app.show(seen, lambda: _lines(seen, catalogue), overview=True)
    if notify:
        tell_late(app)
    return _LATE if fail_if_late and seen.late else 0


def _lines(seen: Lateness, catalogue: Catalogue) -> Iterator[Line]:
    from ..insight.words import count, duration, when

    if not seen.late:
        known = f"; {count(seen.datasets, 'dataset')} looked at" if seen.datasets else ": no dataset has a deadline"
        yield f"nothing is late{known}"
        return

    for alike in _alike(seen.late, catalogue):
        each, spans = alike[0], _spans(alike)
        n = f" ({len(alike):,} chunks)" if len(alike) > 1 else ""
        late = f"{', the first' if n else ''} for {duration(each.seconds_late)}, due {when(each.due)}{_expected(each)}"
        yield [(f"{each.datasetid} {spans[each.dataid]}{n} ", "strong"), (each.sign, each.sign), (late, "")]
        for link in each.chain:
            why = one_line(_with_dataids(link.why, spans))[:300]
            yield f"    {link.datasetid} {spans[link.dataid]}: {link.state}: {why}"
    if seen.more:
        yield f"there are more; these are the first {len(seen.late):,}: -n N"


def _alike(late: Sequence[Late], catalogue: Catalogue) -> list[list[Late]]:
    """Late chunks that follow each other and are held up in the same way, together; in the order of the first of each."""
    from ..insight.axis import ranges

    groups: list[list[Late]] = []
    newest: dict[object, list[Late]] = {}
    for each in late:
        no_dataids = dict.fromkeys(_spans([each]), "")
        links = ((link.datasetid, link.state, _with_dataids(link.why, no_dataids)) for link in each.chain)
        group = newest.get(key := (each.datasetid, each.sign, *links))
        partition = catalogue.datasets[each.datasetid].partition
        if group is None or len(ranges(partition, [group[-1].dataid, each.dataid])) > 1:
            newest[key] = group = []
            groups.append(group)
        group.append(each)
    return groups


def _spans(alike: Sequence[Late]) -> dict[str, str]:
    """For each dataid in the chain of the first of these chunks, what it stands for in all of them."""
    from ..insight.axis import DataidRange

    (first, *_), last = alike, alike[-1]
    ends = zip(
        [first.dataid, *(link.dataid for link in first.chain)],
        [last.dataid, *(link.dataid for link in last.chain)],
        strict=True,
    )
    return {start: str(DataidRange(start, end)) for start, end in ends}


def _with_dataids(why: str, written: Mapping[str, str]) -> str:
    """The words with these dataids written in another way, where they stand as a word."""
    return " ".join(written.get(word, word) for word in why.split(" "))


def _expected(each: Late) -> str:
    from ..insight.words import duration, when

    if each.expected is not None:
        return f", expected {when(each.expected)}"
    return f", about {duration(each.seconds_left)} of work after that" if each.seconds_left else ""
