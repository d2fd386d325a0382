"""A table without a password of its own sends none: neither the worker's PGPASSWORD nor what its ~/.pgpass says."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow import Dataset
from opendataflow.errors import OdfError
from opendataflow.spark.postgres.connection import address_of, connected
from tests.support.fake_postgres import CLEARTEXT, MD5, FakePostgres

CANARY = "canary-1f0c88"


@pytest.mark.parametrize("asks", [CLEARTEXT, MD5])
@pytest.mark.parametrize("options", [{}, {"require_auth": ["password", "md5"]}])
def test_a_row_without_a_password_gets_none_of_the_workers(
    asks: bytes,
    options: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:*:{CANARY}\n")
    passfile.chmod(0o600)
    (tmp_path / "services").write_text(f"[evil]\npassword={CANARY}\npassfile={passfile}\n")
    server = FakePostgres(asks)
    given = {"PGPASSWORD": CANARY, "PGPASSFILE": str(passfile), "PGREQUIREAUTH": "password,md5"}
    given |= {"PGSERVICEFILE": str(tmp_path / "services"), "PGSERVICE": "evil"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    host = f"127.0.0.1:{server.port}"
    table = Dataset("orders", kind="table", hostname=host, username="etl", tablename="orders", options=options)
    address = address_of(table, None)
    try:
        with pytest.raises(OdfError), connected(address):
            pass
    finally:
        server.close()
    assert server.connections
    assert server.passwords == []
    assert capfd.readouterr().err == ""


def test_a_server_that_asks_for_nothing_needs_no_password() -> None:
    table = Dataset("orders", kind="table", hostname="db.example", database="shop", tablename="orders")
    assert "require_auth='none'" in address_of(table, None).conninfo()
    assert "require_auth='scram-sha-256'" in address_of(table, "x").conninfo()
