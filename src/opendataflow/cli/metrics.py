"""The verb metrics: figures for Prometheus, once or served."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click

from ..errors import OdfError, StoreUnreachable, UsageError
from ..model.listen_address import LOOPBACK, ListenAddress
from .app import App
from .common import verb
from .exposition import DEFAULT_PORT, exposed, require, server
from .running import terminating

if TYPE_CHECKING:
    from ..insight.metrics import Metrics


@verb("metrics")
@click.option(
    "--listen",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value=f"{LOOPBACK}:{DEFAULT_PORT}",
    help=f"Serve the figures at http://ADDRESS/metrics until stopped. Default: {LOOPBACK}:{DEFAULT_PORT}.",
)
@click.option("--totals", is_flag=True, help="Count the whole history, as --listen does; the time grows with it.")
def metrics_verb(app: App, listen: str | None, totals: bool) -> int:
    """Figures for Prometheus: chunks, claims, refusals, failures, run times, pools and the store itself.

    Without --listen they are printed once. What history tells is then counted over the last 100,000 runs and events, as
    gauges named odf_recent_…; with --totals over all of it, as the counters that --listen serves. --listen counts the
    history once and goes on from there, so that a scrape costs little. Only this machine can ask, unless you name
    another address. No dataid, run or message is in the figures. A store that does not answer is odf_up 0.

    \b
      odf metrics
      odf metrics --listen
      odf metrics --listen 127.0.0.1:9464
      odf metrics --totals --json
    """
    from importlib.metadata import version

    from ..insight.metrics import Metrics, not_up

    address = ListenAddress.parse(listen, DEFAULT_PORT) if listen is not None else None
    if address is not None and (app.as_json or totals):
        raise UsageError("--listen serves text with totals", hint="Leave out --json and --totals.")
    if not app.as_json:
        require()
    if address is not None and app.is_missing:
        app.open_store()  # which says so
    figures = Metrics(app.open_store, version("opendataflow"))
    try:
        if address is not None:
            return _serve(app, address, figures)
        try:
            found = figures.once(totals=totals)
            problem: OdfError | None = None
        except StoreUnreachable as error:
            found, problem = [not_up()], error
        app.show([figure.to_data() for figure in found])
        if not app.as_json:
            sys.stdout.write(exposed(found))
    finally:
        figures.close()
    if problem is not None:
        app.say(f"{problem.name}: {problem.message}")
    return problem.exit_code if problem else 0


def _serve(app: App, address: ListenAddress, figures: Metrics) -> int:
    with server(address, figures.again, app.project.web.hosts) as listening:
        watch = threading.Thread(target=figures.watch, name="metrics-watch", daemon=True)
        watch.start()
        app.say(f"figures are at http://{ListenAddress(address.host, listening.server_port)}/metrics")
        if not address.is_loopback:
            app.say("others can read them too: the names of datasets and jobs, and no data")
        with terminating():
            try:
                listening.serve_forever()
            except KeyboardInterrupt:
                app.say("stopped")
    return 0
