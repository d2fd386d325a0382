"""The verb serve: the console, for a browser."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Sequence

import click

from ..errors import MissingDependency, UsageError, install_command
from ..model.listen_address import ListenAddress
from .app import App
from .common import verb
from .running import terminating


@verb("serve")
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="HOST:PORT, or only a port; 0 takes a free one. Default: listen in [web] of dataflow.toml, or 127.0.0.1:8460.",
)
@click.option("--read-only", is_flag=True, help="Refuse every change, whatever the role.")
@click.option("--open", "opens", is_flag=True, help="At a terminal: open a browser there.")
@click.option("--new-token", metavar="NAME", help="Print a new token for NAME once, and the lines for dataflow.toml.")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), help="What NAME may do. Default: viewer.")
def serve_verb(
    app: App, listen: str | None, read_only: bool, opens: bool, new_token: str | None, role: str | None
) -> int:
    """The console: what is ready, what is stuck and why, and the buttons that heal it, in a browser.

    It shows what the other verbs answer, as it changes. Only this machine can reach it, unless [web] in dataflow.toml
    declares tokens or a proxy that names its users. It needs the extra web. Ctrl-C stops it.

    \b
      odf serve
      odf serve --read-only
      odf serve --listen 127.0.0.1:9000
      odf serve --new-token ann --role operator
    """
    if new_token is not None:
        return _new_token(app, new_token, role or "viewer")
    if role is not None:
        raise UsageError("--role is of a token", hint="Name who gets it: --new-token NAME")
    if app.as_json:
        raise UsageError(
            "odf serve answers browsers", hint="Programs find the same facts under /api/v1 of the console."
        )
    require_web()
    from ..web.access import Access, check_address
    from ..web.app import listening, make_app, serve
    from ..web.site import PATIENCE, Site, Stores

    web = app.project.web
    address = ListenAddress.parse(listen or web.listen)
    check_address(address, web)
    app.open_store()  # which reports what is wrong with it before the console listens
    app.taken.find_keys()  # which no page repeats
    at = listening(address)
    address = ListenAddress(address.host, at.getsockname()[1])
    access = Access(web, address, user=_user(), read_only=read_only)
    site = Site(app.project, app.about(), Stores(lambda: app.another_store(PATIENCE)), access, app.redact)
    site.say, site.debug, site.hide = app.say, app.debug, lambda store: app.hide(store=store)

    def started() -> None:
        where = f"http://{_shown(address)}/"
        app.say(f"the console is at {where}  (Ctrl-C stops it)")
        if _shown(address) != address:
            app.say(from_elsewhere(address, web.hosts))
        if web.proxy_risk:
            app.say(f"note: {web.proxy_risk}")
        if opens and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(where)

    try:
        with terminating():
            serve(make_app(site), at, started)
    except KeyboardInterrupt:
        app.say("stopped")
    finally:
        at.close()
    return 0


def _new_token(app: App, name: str, role: str) -> int:
    from ..model import check_id
    from ..project.section import quoted
    from ..project.web import new_token

    check_id("token", name)
    token, hash = new_token()
    lines = [f"[web.token.{quoted(name)}]", f'role = "{role}"', f'hash = "{hash}"']
    app.show({"name": name, "role": role, "hash": hash, "token": token}, lambda: [token])
    app.say("this is the token: it is shown once and cannot be recovered. For dataflow.toml:")
    for line in lines:
        app.say(f"  {line}")
    return 0


def require_web() -> None:
    """Refuse where the extra web is not installed."""
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "odf serve needs fastapi, uvicorn and jinja2", hint=f"Install them: {install_command('web')}"
        ) from None


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def from_elsewhere(address: ListenAddress, hosts: Sequence[str]) -> str:
    """How other machines reach a console that listens on all addresses: by a declared name, or one that has to be."""
    name = next(iter(hosts), socket.gethostname().lower())
    where = name if ":" in name else f"{name}:{address.port}"
    needs = "" if hosts else f', as soon as [web] in dataflow.toml has hosts = ["{name}"]'
    return f"from other machines: http://{where}/{needs}"


def _shown(address: ListenAddress) -> ListenAddress:
    """The address as a browser needs it: one that stands for all is this machine's own."""
    return address._replace(host="127.0.0.1") if address.host in ("0.0.0.0", "::") else address
