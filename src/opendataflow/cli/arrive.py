"""Verbs for data that arrives from outside: ready, discover."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .common import App, table, verb
from .run import worker_of

if TYPE_CHECKING:
    from ..run.arrival import Arrived

_MOST = 12  # lines that people read


@verb("ready")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option(
    "--again", is_flag=True, help="Accept what is there now as a new version, also where nothing seems to have changed."
)
@click.option("--unseen", is_flag=True, help="Announce without checking that something is there.")
@click.option("--dry-run", is_flag=True, help="Say what would be announced, and change nothing.")
@click.argument("dataset")
@click.argument("dataids", metavar="DATAID…|FROM..TO", nargs=-1, required=True)
def ready_verb(
    app: App, dataset: str, dataids: tuple[str, ...], why: str | None, again: bool, unseen: bool, dry_run: bool
) -> int:
    """Announce chunks that something outside produced: they become READY.

    First a look at the dataset's location: the data must be there, and it must not be the content of another chunk
    (WRONG_DATA). Announcing a chunk again changes nothing unless its content is new: a file that only has another time is
    the same file. To accept a file as it is now, whatever it was, say --again.

    \b
      odf ready flights_raw 2013-01-01
      odf ready flights_raw 2013-01-01..2013-01-31
      odf ready orders 1 2 3 --why "loaded by hand"
      odf ready --again flights_raw 2013-01-05 --why "corrected by hand"
    """
    from ..model import dataids as between
    from ..run.arrival import announce

    registered = app.store.catalogue().dataset(dataset)
    wanted: list[str] = []
    for word in dataids:
        first, dots, last = word.partition("..")
        wanted += between(registered.partition, first, last) if dots else [word]
    result = announce(worker_of(app), registered, wanted, look=not unseen, why=why, dry_run=dry_run, again=again)
    would = "would be " if dry_run else ""
    lines = [f"{dataset}: {len(result.ready)} {would}READY, {len(result.unchanged)} unchanged"]
    app.show(
        {"dataset": dataset, "ready": result.ready, "unchanged": result.unchanged, "dry_run": dry_run}, lambda: lines
    )
    return 0


@verb("discover")
@click.option(
    "--quiet-for",
    type=float,
    default=None,
    metavar="SECONDS",
    help="How long size and time must stay the same (default: the dataset's, or 2).",
)
@click.option("--dry-run", is_flag=True, help="Say what would be announced, and change nothing.")
@click.argument("dataset")
def discover_verb(app: App, dataset: str, quiet_for: float | None, dry_run: bool) -> int:
    """Find chunks that arrived at a dataset's location, look at them, and announce them.

    A chunk has arrived when its marker file is there (ready = { marker = "{dataid}.done" } on the dataset), or when its
    size has not changed for some seconds. A chunk that is READY already is left alone unless its content is new.

    \b
      odf discover flights_raw
      odf discover flights_raw --quiet-for 60
    """
    from ..run.arrival import discover

    registered = app.store.catalogue().dataset(dataset)
    if not registered.location:
        raise UsageError(
            f"dataset {dataset} has no location to look at",
            hint=f"Announce its chunks yourself: odf ready {dataset} DATAID",
        )
    arrived = discover(worker_of(app), registered, quiet_for=quiet_for, dry_run=dry_run)
    app.show(
        [{"dataid": chunk.dataid, "verdict": chunk.verdict, "why": chunk.why} for chunk in arrived],
        lambda: _told(arrived),
    )
    return next((chunk.exit_code for chunk in arrived if chunk.exit_code), 0)


def _told(arrived: list[Arrived]) -> list[str]:
    """A line for each chunk; of many, only for those that were refused, and how many have which verdict."""
    many = len(arrived) > _MOST
    rows = [(chunk.dataid, chunk.verdict, chunk.why) for chunk in arrived if not many or chunk.exit_code]
    lines = table(["dataid", "verdict", "why"], rows) if rows else []
    if many:
        lines.append(
            ", ".join(f"{n:,} {verdict}" for verdict, n in Counter(chunk.verdict for chunk in arrived).items())
        )
    return lines or ["nothing new arrived"]
