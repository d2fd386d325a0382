"""The API keeps to its own description, whatever is sent to it: no failure of ours, no status or answer that is not described."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks

from opendataflow.project.web import new_token
from opendataflow.store import open_store
from opendataflow.web.api.description import description
from tests.support.console import ADDRESS, console
from tests.web.test_api import fill

TOKEN, HASH = new_token()

load_all_checks()
WANTED = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
KNOWN = CHECKS.get_by_names(list(WANTED))

CONSOLES: list[Any] = []  # the one that is asked


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The console of this module, which goes on when one of its clients is done."""
    if scope["type"] == "http":
        await CONSOLES[-1](scope, receive, send)


schema = schemathesis.openapi.from_dict(description())
schema.app = application


@pytest.fixture(scope="module", autouse=True)
def shop(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A project with a store, and its console."""
    folder = tmp_path_factory.mktemp("shop")
    url = f"sqlite:///{folder}/dataflow.db"
    (folder / "dataflow.toml").write_text(f'[web.token.zoe]\nrole = "admin"\nhash = "{HASH}"\n')
    with open_store(url, create=True) as store:
        fill(store)
    CONSOLES.append(console(folder, url).app)


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_is_answered_as_described(case) -> None:
    case.call_and_validate(
        base_url=f"http://{ADDRESS}",
        headers={"authorization": f"Bearer {TOKEN}"},
        checks=KNOWN,
    )
