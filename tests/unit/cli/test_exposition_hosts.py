"""Which names a request for figures may give this machine."""

from __future__ import annotations

import socket

import pytest

from opendataflow.cli.exposition import is_known_host

NAMES = ["0.0.0.0", "Metrics.example"]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9464", "127.0.0.1", "[::1]:9464", "10.1.2.3:9464", "localhost:9464", "metrics.example:9464"],
)
def test_an_address_or_a_declared_name_is_known(host: str) -> None:
    assert is_known_host(host, NAMES)


def test_the_name_of_this_machine_is_known() -> None:
    assert is_known_host(f"{socket.gethostname()}:9464", NAMES)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:9464", "127.0.0.1.evil.example", "localhost.evil:1"]
)
def test_the_name_of_a_page_elsewhere_is_not(host: str) -> None:
    assert not is_known_host(host, NAMES)
