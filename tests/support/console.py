"""The console inside a test: the whole application, without a socket."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from starlette.testclient import TestClient

from opendataflow.model.listen_address import ListenAddress
from opendataflow.project import load, without_file
from opendataflow.secrets import take
from opendataflow.store import open_store
from opendataflow.web import pages
from opendataflow.web.access import Access
from opendataflow.web.api.description import description
from opendataflow.web.app import make_app
from opendataflow.web.site import Site, Stores

ADDRESS = ListenAddress("127.0.0.1", 8460)
SITES: list[Site] = []  # that were opened, for whoever closes them


def console(folder: Path, url: str, *, user: str = "ada", read_only: bool = False, **settings: Any) -> TestClient:
    """A browser without scripts, at the console of a project's folder and a store."""
    file = folder / "dataflow.toml"
    project = load(file, None) if file.exists() else without_file(folder, url)
    about = {"project": project.name, "environment": project.environment.name, "store": url.partition("?")[0]}
    access = Access(project.web, ADDRESS, user=user, read_only=read_only)
    said: list[str] = []
    site = Site(
        project, about, Stores(lambda: open_store(url)), access, take(os.environ).hidden.redact, say=said.append
    )
    site.debug = True
    SITES.append(site)
    client = TestClient(make_app(site), base_url=f"http://{ADDRESS}", raise_server_exceptions=True, **settings)
    client.said = said  # type: ignore[attr-defined]
    return client


def csrf_of(client: TestClient, path: str = "/about") -> str:
    """The token that forms of this client's session carry."""
    found = re.search(r'data-csrf="([^"]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def routes() -> list[tuple[str, str]]:
    """Every address that the console knows, each with its method: of pages and of the API."""
    found = [
        (method, route.path)
        for module in iter_modules(pages.__path__)
        for route in import_module(f"{pages.__name__}.{module.name}").router.routes
        for method in route.methods
    ]
    return found + [(method.upper(), path) for path, each in description()["paths"].items() for method in each]
