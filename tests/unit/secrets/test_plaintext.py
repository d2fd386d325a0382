"""A password is recognised wherever anybody could read it, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from opendataflow.secrets import holds_password, is_password_name


@pytest.mark.parametrize("name", ["password", "PASSWORD", "javax.jdo.option.passwd", "pass", "a.b.Pwd"])
def test_names_of_passwords(name: str) -> None:
    assert is_password_name(name)


@pytest.mark.parametrize("name", ["encryptedpass", "passenger", "password_hint", "compass", ""])
def test_names_of_something_else(name: str) -> None:
    assert not is_password_name(name)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://etl:hunter2@db/dataflow",
        "postgresql://etl:a/hunter2@db/dataflow",
        "postgresql://:hunter2@db/dataflow",
        "postgresql://db/dataflow?password=hunter2",
        "postgresql://db/dataflow?sslmode=require&sslpassword=hunter2",
        "postgresql://db/dataflow?pass%77ord=hunter2",
        "jdbc:sqlserver://db:1433;user=etl;Password=hunter2",
        "s3a://key:hunter2@bucket/{dataid}",
        "ftp://u:hunter2@h/",
    ],
)
def test_an_address_with_a_password(address: str) -> None:
    assert holds_password(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "raw/{dataid}.csv",
        "sqlite:///dataflow.db",
        "postgresql://etl@db:5432/dataflow?sslmode=require",
        "hdfs://namenode:8020/user/someone@example/{dataid}",
        "hdfs://[::1]:8020/user/someone@example/{dataid}",
        "abfss://container@account.example/{dataid}",
        "jdbc:mysql://db.example:3306/shop",
        "https://db/dataflow?passenger=7",
    ],
)
def test_an_address_without_one(address: str) -> None:
    assert not holds_password(address)
