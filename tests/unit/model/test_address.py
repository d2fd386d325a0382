"""A dataset's hosts are told alike, by its hostname and by what its JDBC address says."""

from __future__ import annotations

import pytest

from opendataflow import Dataset
from opendataflow.errors import BadDefinition
from opendataflow.model.definitions.address import Address, Host, address_of, hosts_of


def at(hostname: str = "", **options: object) -> Dataset:
    return Dataset("orders", hostname=hostname, options=options)


@pytest.mark.parametrize(
    ("dataset", "hosts"),
    [
        (at(), []),
        (at("db.example"), ["db.example"]),
        (at("DB.Example"), ["db.example"]),
        (at("db:5433"), ["db:5433"]),
        (at("db:5432"), ["db"]),
        (at("db", port=5433), ["db:5433"]),
        (at("db:1", port=5433), ["db:1"]),
        (at("", port=5433), ["localhost:5433"]),
        (at("[::1]:5433"), ["[::1]:5433"]),
        (at("::1"), ["[::1]"]),
        (at("good,evil:6666"), ["good", "evil:6666"]),
        (at("/run/postgresql"), ["/run/postgresql"]),
        (at(url="jdbc:postgresql://db:5432/shop"), ["db"]),
        (at(url="jdbc:postgresql://db:6666/shop?ssl=true"), ["db:6666"]),
        (at(url="jdbc:postgresql://good,evil:6666/shop"), ["good", "evil:6666"]),
        (at(url="jdbc:postgresql:///shop"), ["localhost"]),
        (at(url="jdbc:postgresql:shop"), ["localhost"]),
        (at(url="jdbc:postgresql://[2001:db8::1]:6666/shop"), ["[2001:db8::1]:6666"]),
        (at(url="jdbc:mysql://h1,h2:3307/shop"), ["h1", "h2:3307"]),
        (at(url="jdbc:mysql:replication://h1,h2/shop"), ["h1", "h2"]),
        (at(url="jdbc:mariadb://h1:3306/shop"), ["h1"]),
        (at(url="JDBC:sqlserver://db:1433;databaseName=shop;encrypt=true;trustServerCertificate=false"), ["db"]),
        (at(url="jdbc:oracle:thin:@//db:1521/shop"), ["db"]),
        (at(url="jdbc:oracle:thin:@tcps://db:2484/shop"), ["db:2484"]),
        (at(url="jdbc:oracle:thin:@db:1522:sid"), ["db:1522"]),
        (at(url="jdbc:oracle:thin:@db:1522/shop"), ["db:1522"]),
        (at(url="jdbc:db2://db:50000/shop"), ["db"]),
        (at(url="jdbc:derby://db:1527/shop"), ["db:1527"]),
        (at(url="jdbc:h2:tcp://db/~/shop"), ["db"]),
        (at(url="jdbc:derby:memory:shop"), []),
        (at(url="jdbc:derby:/data/shop;create=true"), []),
        (at(url="jdbc:h2:mem:shop"), []),
        (at(url="jdbc:sqlite:/data/shop.db"), []),
        (at(url="jdbc:duckdb:/data/shop.duckdb"), []),
        (at("db", url="jdbc:mysql://evil/shop"), ["db", "evil"]),
    ],
)
def test_hosts_are_found(dataset: Dataset, hosts: list[str]) -> None:
    assert list(map(str, hosts_of(dataset))) == hosts


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db/shop",
        "jdbc:",
        "jdbc:unknown:something",
        "jdbc:mysql://address=(host=evil)(port=1)/shop",
        "jdbc:mysql://(host=evil,port=1)/shop",
        "jdbc:mysql://user@evil/shop",
        "jdbc:mysql://good%2Cevil/shop",
        "jdbc:mysql://good\\@evil/shop",
        "jdbc:sqlserver://db\\instance;databaseName=shop",
        "jdbc:sqlserver://good;serverName=evil",
        "jdbc:sqlserver://;servername=evil",
        "jdbc:postgresql://good/shop?socketFactory=x&socketFactoryArg=y",
        "jdbc:postgresql://good/shop?%50GHOST=evil",
        "jdbc:oracle:thin:@alias",
        "jdbc:oracle:thin:@ldap://db/x",
        "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=evil)))",
        "jdbc:oracle:oci:@alias",
        "jdbc:duckdb:md:shop",
        "jdbc:sqlite::resource:http://evil/x.db",
    ],
)
def test_an_address_that_could_lead_anywhere_is_told_as_such(url: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        hosts_of(at(url=url))
    assert "orders" in caught.value.message


def test_a_host_is_listed_with_its_port_or_at_its_usual_one() -> None:
    listed = ["db", "other:5433", "[::1]:6000"]
    assert Host("db").is_among(listed)
    assert not Host("db", "6666").is_among(listed)
    assert Host("db", "6666").is_among(listed, at_any_port=True)
    assert Host("other", "5433").is_among(listed)
    assert not Host("other").is_among(listed)
    assert Host("::1", "6000").is_among(listed)
    assert not Host("evil").is_among(listed, at_any_port=True)


def test_this_machine_is_known_by_its_names_and_sockets() -> None:
    assert all(
        Host(name).is_here
        for name in ("", "localhost", "127.0.0.1", "::1", "/run/postgresql", "/var/run/postgresql", "/tmp")
    )
    assert not any(Host(*host).is_here for host in (("@abstract",), ("/tmp/x",), ("/home/eve",), ("/tmp", "6000")))
    assert not any(Host(name).is_here for name in ("db", "localhost.evil", "127.0.0.2.evil", "0"))


def test_another_port_of_this_machine_may_be_anybodys() -> None:
    assert not any(Host(name, "7781").is_here for name in ("", "localhost", "127.0.0.1", "::1"))
    assert all(host.is_here for host in hosts_of(at("localhost:5432")))
    assert Host("localhost", "7781").is_among(["localhost:7781"])
    assert Host("/run/postgresql", "5433").is_here


def test_an_address_is_shown_as_people_write_it_and_without_parameters() -> None:
    table = Dataset("orders", hostname="db:5433", database="shop", username="etl")
    assert str(address_of(table)) == "etl@db:5433/shop"
    jdbc = Dataset("orders", username="etl", options={"url": "jdbc:mysql://db/shop?useSSL=false"})
    assert str(address_of(jdbc)) == "etl@jdbc:mysql://db/shop"
    assert str(address_of(Dataset("orders"))) == "localhost"
    assert address_of(Dataset("orders")) == Address()
