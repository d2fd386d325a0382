"""The console on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.console import SITES
from tests.support.stores import open_again, store, store_url

__all__ = ["closed", "open_again", "store", "store_url"]


@pytest.fixture(autouse=True, scope="session")
def closed() -> Iterator[None]:
    """What consoles opened is closed in the end."""
    yield
    while SITES:
        SITES.pop().stores.close()
