"""The verb by which a script asks whether the chunk is still its own: check-lease."""

from __future__ import annotations

import os

import click

from ..errors import LeaseLost, UsageError
from .app import App
from .common import verb


@verb("check-lease")
@click.argument("run", type=int, required=False)
def check_lease_verb(app: App, run: int | None) -> int:
    """Say whether a run still holds its chunk: exit 0 if it does, 16 if it lost it. Nothing is changed.

    RUN is the run whose script asks ($ODF_RUN) unless you name one. A script that writes where OpenDataFlow cannot keep
    attempts apart (a table, a service, a location that several chunks share) asks right before it does.

    \b
      odf check-lease || exit
      odf check-lease 17
    """
    named = os.environ.get("ODF_RUN", "")
    if run is None and not named.isdecimal():
        raise UsageError("no run is named, and $ODF_RUN is not set", hint="Write it like this: odf check-lease 17")
    runid = int(named) if run is None else run
    if not app.store.views.holds(runid):
        ended = app.store.views.run(runid)
        if ended.ended is not None:
            raise LeaseLost(
                f"run {runid} has ended: {ended.outcome or ended.status}",
                hint=f"Write nothing more for this run. See how it went: odf runs {ended.jobid}",
            )
        raise LeaseLost(
            f"run {runid} no longer holds its chunk",
            hint="Its lease ran out, or its status was changed. Write nothing more: its successor's work stands.",
        )
    app.show({"run": runid, "holds": True}, lambda: [f"run {runid} holds its chunk"])
    return 0
