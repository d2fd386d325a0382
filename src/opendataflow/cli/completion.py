"""Completion of names for a shell: what the store and the project know, within a moment, and never an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from ..insight.axis import FIRST_KEY, LAST_KEY
from ..model.definitions.dataid import TYPES
from .app import App

_PATIENCE = 1.0  # seconds that somebody who pressed a key will wait
_MOST = 100
_LOOKED_AT = 1_000


def complete(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The names of a kind that go on from what is typed; none when the store does not answer at once."""
    if kind == "target" and ("/" in incomplete or "." in incomplete):
        return [CompletionItem(incomplete, type="file")]
    found = _in_time(lambda: _names(kind, ctx, incomplete))
    names = [name for name in dict.fromkeys(found) if name.startswith(incomplete)][:_MOST]
    if kind == "target" and not names:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name) for name in names]


def _in_time(look: Callable[[], Iterable[str]]) -> list[str]:
    found: list[str] = []

    def work() -> None:
        with suppress(Exception):  # a shell that completes shows no errors
            found.extend(look())

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(_PATIENCE)
    return [] if worker.is_alive() else found


def _names(kind: str, ctx: click.Context, incomplete: str) -> list[str]:
    app = App(ctx.params.get("store_url"), ctx.params.get("env"))
    try:
        if kind != "env":
            app.open_store(create=False)  # a look makes no store
        return list(_KINDS[kind](app, ctx, incomplete))
    finally:
        app.close()


def _jobs(app: App, ctx: click.Context, incomplete: str) -> Iterable[str]:
    return app.store.catalogue().jobs


def _datasets(app: App, ctx: click.Context, incomplete: str) -> Iterable[str]:
    return app.store.catalogue().datasets


def _dataids(app: App, ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The chunks of the dataset that is named already, or of what the named job makes and reads."""
    catalogue = app.store.catalogue()
    datasetid = ctx.params.get("dataset")
    named = (ctx.params.get(name) for name in ("jobid", "job", "run_or_job", "target"))
    job = catalogue.jobs.get(str(next(filter(None, named), "")))
    names = [datasetid] if datasetid else [*job.outputs, *(item.datasetid for item in job.inputs)] if job else []
    for name in names:
        begins = incomplete if TYPES[catalogue.dataset(name).partition.type].is_time else ""
        yield from app.store.views.newest_dataids(name, begins or FIRST_KEY, begins + LAST_KEY, _LOOKED_AT)


def _environments(app: App, ctx: click.Context, incomplete: str) -> Iterable[str]:
    return app.project.environments


_KINDS: dict[str, Callable[[App, click.Context, str], Iterable[str]]] = {
    "job": _jobs,
    "target": _jobs,
    "dataset": _datasets,
    "dataid": _dataids,
    "env": _environments,
}
