"""The words that name chunks, runs and events: one grammar for every verb that takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..model import FAILED

if TYPE_CHECKING:
    from datetime import datetime

    from ..model.selector import Selector
    from .app import App

_Function = Callable[..., Any]


def selectors(*leave_out: str) -> Callable[[_Function], _Function]:
    """Give a verb all selectors but those that are left out; its function gets them as one `selector`."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def call(app: App, **given: Any) -> Any:
            named = {name: given.pop(name, None) for name in _NAMES}
            return function(app, selector=_selector(app, **named), **given)

        made: Any = call
        for name, option in reversed(_OPTIONS.items()):
            if name not in leave_out:
                made = option(made)
        return made  # type: ignore[no-any-return]

    return decorate


def moment_of(app: App, text: str, *, end: bool = False) -> datetime:
    """A time on the command line, in the project's time zone."""
    from datetime import UTC, datetime

    from ..model.moment import parse_moment
    from ..model.timezone import time_zone

    return parse_moment(text, datetime.now(UTC), time_zone(app.project.timezone), end=end)


def _selector(app: App, **given: Any) -> Selector:
    from ..model.selector import Selector

    dataset, words, jobs = given["dataset"], given["dataids"] or (), given["jobs"] or ()
    if jobs and dataset is not None:
        words, dataset = (dataset, *words), None  # with --job, all words are dataids
    if dataset is not None and not jobs:
        dataset, jobs = _dataset_or_job(app, dataset)
    since, until = given["since"], given["until"]
    statuses = given["statuses"] or ()
    if given["failed"]:
        if set(statuses) - {FAILED}:
            raise UsageError("--failed is --status FAILED", hint="Leave out one of the two.")
        statuses = (FAILED,)
    return Selector(
        (dataset,) if dataset is not None else (),
        tuple(words),
        tuple(jobs),
        tuple(statuses),
        tuple(given["causes"] or ()),
        moment_of(app, since) if since else None,
        moment_of(app, until, end=True) if until else None,
        tuple(given["who"] or ()),
        tuple(given["upstream_of"] or ()),
        tuple(given["downstream_of"] or ()),
        everything=bool(given["everything"]),
    )


def _dataset_or_job(app: App, word: str) -> tuple[str | None, tuple[str, ...]]:
    """What a word names: a dataset, or else what the job of this name produces, which is said."""
    from ..model.definitions.ids import check_id
    from .common import say_if_both

    catalogue = app.store.catalogue()
    job = None if check_id("dataset", word) in catalogue.datasets else catalogue.jobs.get(word)
    if job is None:
        say_if_both(app, word, "dataset")
        return word, ()
    app.say(f"{word} is a job: taken for what it produces, {', '.join(job.outputs)}")
    return None, (word,)


_FROM = "DATASET[:DATAID]"
_OPTIONS: dict[str, _Function] = {
    "--failed": click.option("--failed", is_flag=True, help="Only what is FAILED: --status FAILED."),
    "--status": click.option(
        "--status", "statuses", metavar="STATUS", multiple=True, help="Only what has this status."
    ),
    "--job": click.option("--job", "jobs", metavar="JOB", multiple=True, help="What this job produces."),
    "--cause": click.option(
        "--cause", "causes", metavar="TEXT", multiple=True, help="Only what failed with this name or message."
    ),
    "--since": click.option("--since", metavar="TIME", help="Changed since then: 2026-11-14, 03:00, 2h, yesterday."),
    "--until": click.option("--until", metavar="TIME", help="Changed before then; a day is meant to its end."),
    "--by": click.option("--by", "who", metavar="WHO", multiple=True, help="Changed by this user, or user@host."),
    "--upstream-of": click.option("--upstream-of", metavar=_FROM, multiple=True, help="What this is made from."),
    "--downstream-of": click.option("--downstream-of", metavar=_FROM, multiple=True, help="What is made from this."),
    "--all": click.option("--all", "everything", is_flag=True, help="Every chunk that the verb applies to."),
    "dataset": click.argument("dataset", required=False),
    "dataids": click.argument("dataids", metavar="[DATAID…|FROM..TO]", nargs=-1),
}
_NAMES = (
    *("dataset", "dataids", "jobs", "statuses", "failed", "causes", "since", "until", "who"),
    *("upstream_of", "downstream_of", "everything"),
)
