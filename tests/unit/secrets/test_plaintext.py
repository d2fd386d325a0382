"""A password is recognised wherever anybody could read it, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from opendataflow.secrets import holds_secret, is_secret_name
from opendataflow.tokens import secrets_in, shown_address, without_secrets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "javax.jdo.option.passwd",
        "pass",
        "a.b.Pwd",
        "trustStorePassword",
        "token",
        "sas_token",
        "private_key_file_pwd",
        "fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.secret.key",
        "accountKey",
        "sig",
        "sslpassword",
        "oauth_client_secret",
        "API_TOKEN",
        "client_secret",
    ],
)
def test_names_of_passwords(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "encryptedpass",
        "passenger",
        "password_hint",
        "compass",
        "",
        "signal",
        "design",
        "token_file",
        "fs.s3a.aws.credentials.provider",
        "AWS_ACCESS_KEY_ID",
    ],
)
def test_names_of_something_else(name: str) -> None:
    assert not is_secret_name(name)


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
        "https://account.blob.example/box/{dataid}?sv=2024&sig=hunter2",
        "jdbc:oracle:thin:etl/hunter2@//db:1521/shop",
        "jdbc:oracle:oci:etl/hunter2@db",
        "jdbc:sqlserver://db:1433;trustStorePassword=hunter2",
        "jdbc:snowflake://db/?private_key_file_pwd=hunter2",
        "jdbc:mysql://address=(host=db)(user=etl)(password=hunter2)/shop",
        "sc://spark:15002/;token=hunter2",
        "etl:hunter2@db.example",
        "host=db user=etl password=hunter2",
        "password='hunter2' host=db",
        "postgresql://db/dataflow?oauth_client_secret=hunter2",
        "postgresql://db/dataflow?%70assword=hunter2",
    ],
)
def test_an_address_with_a_password(address: str) -> None:
    assert holds_secret(address)
    assert any("hunter2" in secret for secret in secrets_in(address))
    assert "hunter2" not in shown_address(address)
    if "%" not in address:
        assert "hunter2" not in without_secrets(address)


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
        "jdbc:oracle:thin:@//db:1521/shop",
        "[::1]:5433",
        "db.example:5433",
        "raw/token={dataid}/part.csv",
    ],
)
def test_an_address_without_one(address: str) -> None:
    assert not holds_secret(address)
    assert without_secrets(address) == address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            "postgresql://etl:hunter2@db:5433/flow?sslmode=require&password=hunter2",
            "postgresql://etl@db:5433/flow?sslmode=require",
        ),
        ("postgresql:///flow?host=/tmp&schema=other&options=-c%20x", "postgresql:///flow?host=/tmp&schema=other"),
        ("postgres://a,b:5433/flow", "postgres://a,b:5433/flow"),
        ("postgresql://etl@[::1]:5433/flow", "postgresql://etl@[::1]:5433/flow"),
        ("postgresql://etl:hun/ter2@db/flow", "postgresql://…"),
        ("postgresql://etl:12/hunter2@db/flow", "postgresql://…"),
        ("postgresql://etl:hun@ter2@db/flow", "postgresql://…"),
        ("postgresql://etl%3Ahunter2@db/flow", "postgresql://…"),
        ("postgresql://etl:hunter2/flow", "postgresql://…"),
        ("jdbc:postgresql://db/flow?password=hunter2", "jdbc:postgresql://…"),
        ("host=db password=hunter2", "this"),
        ("sqlite:///dataflow.db", "sqlite:///dataflow.db"),
    ],
)
def test_of_an_address_only_known_parts_are_shown(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_what_somebody_says_is_told_without_its_secrets() -> None:
    said = "moved to postgresql://etl:hunter2@db/flow, with token=abc123 and jdbc:oracle:thin:a/b@c"
    assert without_secrets(said) == (
        "moved to postgresql://etl:[redacted]@db/flow, with token=[redacted] and jdbc:oracle:thin:a/[redacted]@c"
    )
