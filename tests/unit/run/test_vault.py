"""The vault opens a password only where somebody but the store says that it may go."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendataflow import Dataset
from opendataflow.errors import BadDefinition, BadKey, InvalidPath, UntrustedDefinition
from opendataflow.project import Environment, Project, Trust
from opendataflow.run.context import Vault
from opendataflow.secrets import Key, dataset_context, encrypt

KEY = Key("correct horse")
ORDERS = Dataset("orders", kind="table", hostname="db.example", database="shop", username="etl", tablename="orders")


def java(plaintext: str = "s3cret") -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    iv = os.urandom(12)
    key = hashlib.sha512(b"correct horse").digest()[:32]
    return base64.b64encode(iv + AESGCM(key).encrypt(iv, plaintext.encode(), None)).decode()


def vault(*datasets: Dataset, hosts: tuple[str, ...] = (), trusted: tuple[str, ...] = ()) -> Vault:
    here = Path("/nowhere")
    project = Project(here, None, "test", (), Environment("prod", hosts=hosts), ("prod",), here / "logs", datasets)
    return Vault(replace(project, trust=Trust(hosts=trusted)), KEY)


def bound(dataset: Dataset) -> Dataset:
    return replace(dataset, encryptedpass=encrypt("s3cret", KEY, dataset_context(dataset)))


UNBOUND = replace(ORDERS, encryptedpass=java())


def test_a_bound_token_opens_where_it_was_made_for_without_anybody_else() -> None:
    assert vault().password(bound(ORDERS)) == "s3cret"


@pytest.mark.parametrize(
    "change",
    [
        {"hostname": "evil.example"},
        {"hostname": ""},
        {"hostname": "db.example:6666"},
        {"database": "x"},
        {"username": "x"},
        {"options": {"port": 6666}},
        {"options": {"url": "jdbc:postgresql://evil/x"}},
    ],
)
def test_a_row_that_moved_gets_neither_a_bound_nor_an_unbound_password(change: dict[str, Any]) -> None:
    with pytest.raises(BadKey):
        vault(ORDERS).password(replace(bound(ORDERS), **change))
    moved = replace(UNBOUND, **change)
    if moved.hostname:
        with pytest.raises(UntrustedDefinition) as caught:
            vault(ORDERS).password(moved)
        assert "orders" in caught.value.message
        assert "odf crypt rekey --for orders" in caught.value.hint
        assert "hosts" in caught.value.hint


def test_an_unbound_token_goes_nowhere_on_the_word_of_the_store_alone() -> None:
    with pytest.raises(UntrustedDefinition) as caught:
        vault().password(UNBOUND)
    assert "db.example" in caught.value.message
    assert caught.value.exit_code == 18


@pytest.mark.parametrize(
    "opens",
    [
        vault(ORDERS),
        vault(replace(ORDERS, tablename="other", encryptedpass="")),
        vault(hosts=("db.example",)),
        vault(trusted=("db.example",)),
        vault(trusted=("db.example:5432",)),
    ],
)
def test_an_unbound_token_goes_where_somebody_vouches_for_the_address(opens: Vault) -> None:
    assert opens.password(UNBOUND) == "s3cret"


@pytest.mark.parametrize("hostname", ["", "localhost", "127.0.0.1", "::1", "/run/postgresql"])
def test_an_unbound_token_goes_to_this_machine(hostname: str) -> None:
    assert vault().password(replace(UNBOUND, hostname=hostname)) == "s3cret"


@pytest.mark.parametrize("hostname", ["/TMP", "/Run/postgresql", "@pg", "/srv/PG"])
def test_an_unbound_token_goes_to_no_socket_that_differs_in_capitals_from_a_known_one(hostname: str) -> None:
    known = vault(replace(ORDERS, hostname="@PG"), trusted=("/srv/pg",))
    assert known.password(replace(UNBOUND, hostname="@PG")) == "s3cret"
    with pytest.raises(UntrustedDefinition):
        known.password(replace(UNBOUND, hostname=hostname))


@pytest.mark.parametrize("hostname", ["", "localhost", "127.0.0.1", "::1"])
def test_another_port_of_this_machine_must_be_listed_or_declared(hostname: str) -> None:
    elsewhere = replace(UNBOUND, hostname=hostname, options={"port": 7781})
    with pytest.raises(UntrustedDefinition):
        vault().password(elsewhere)
    listed = f"[{hostname}]:7781" if ":" in hostname else f"{hostname}:7781"
    assert vault(trusted=(listed,)).password(elsewhere) == "s3cret"
    assert vault(elsewhere).password(elsewhere) == "s3cret"


def test_a_host_vouches_for_its_usual_port_only() -> None:
    elsewhere = replace(UNBOUND, options={"port": 6666})
    for opens in (vault(hosts=("db.example",)), vault(trusted=("db.example",))):
        with pytest.raises(UntrustedDefinition):
            opens.password(elsewhere)
    assert vault(trusted=("db.example:6666",)).password(elsewhere) == "s3cret"
    assert vault(replace(ORDERS, options={"port": 6666}), hosts=("db.example",)).password(elsewhere) == "s3cret"


@pytest.mark.parametrize(
    "change",
    [{"hostname": "evil.example"}, {"hostname": "db.example,evil"}, {"options": {"url": "jdbc:mysql://evil/x"}}],
)
def test_where_hosts_are_declared_no_password_leaves_them_however_it_is_bound(change: dict[str, Any]) -> None:
    moved = bound(replace(ORDERS, **change))
    with pytest.raises(InvalidPath):
        vault(moved, hosts=("db.example",)).password(moved)


def test_an_address_that_nobody_can_read_is_not_vouched_for() -> None:
    unreadable = replace(UNBOUND, hostname="", options={"url": "jdbc:oracle:thin:@alias"})
    with pytest.raises(BadDefinition):
        vault(trusted=("alias",)).password(unreadable)
    assert vault(replace(unreadable, encryptedpass="")).password(unreadable) == "s3cret"


def test_the_store_alone_cannot_have_a_password_sent_in_clear_text() -> None:
    lax = bound(replace(ORDERS, options={"require_auth": ["password"]}))
    for declared in ([], [ORDERS], [replace(ORDERS, options={"require_auth": "md5"})]):
        with pytest.raises(UntrustedDefinition):
            vault(*declared).password(lax)
    assert vault(lax).password(lax) == "s3cret"


@pytest.mark.parametrize("value", ["sesame", "odf1:sesame", "odf2:x", "c2VzYW1l"])
def test_what_is_not_a_token_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        vault(ORDERS).password(replace(ORDERS, encryptedpass=value))
    assert value not in str(caught.value)
    assert "odf crypt encrypt --for orders" in caught.value.hint


def test_without_a_password_nothing_is_asked() -> None:
    assert vault(hosts=("db.example",)).password(Dataset("a", hostname="evil")) == ""


def test_what_was_opened_is_redacted() -> None:
    opens = vault()
    assert opens.redact("s3cret") == "s3cret"
    opens.password(bound(ORDERS))
    assert opens.redact("s3cret, correct horse, etl:" + base64.b64encode(b"etl:s3cret").decode()).count("s3cret") == 0
    assert list(opens.secrets) == [KEY, "s3cret"]
