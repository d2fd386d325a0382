"""A password is recognised wherever anybody could read it, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from opendataflow.tokens import (
    holds_secret,
    is_secret_name,
    secret_in,
    secrets_in,
    shown_address,
    shown_facts,
    without_secrets,
)


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
        "dbpass",
        "DB_PW",
        "storepass",
        "PGPASS",
        "SIGNING_KEY",
        "header.Authorization",
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
        "tokens_used",
        "MAX_TOKENS",
        "token_count",
        "tokenizer",
        "token_expires_in",
        "secretary",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "TOKEN_LIMIT",
        "password_policy",
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
        "etl/hunter2@db:1521/shop",
        "etl/hunter2@//db/shop",
        "the login is etl/hunter2@db.example:1521:shop",
        "jdbc:sqlserver://db:1433;user=etl;password={a;hunter2}",
        "jdbc:sqlserver://db:1433;trustStorePassword=hunter2",
        "jdbc:snowflake://db/?private_key_file_pwd=hunter2",
        "jdbc:mysql://address=(host=db)(user=etl)(password=hunter2)/shop",
        "sc://spark:15002/;token=hunter2",
        "etl:hunter2@db.example",
        "host=db user=etl password=hunter2",
        "password='hunter2' host=db",
        "postgresql://db/dataflow?oauth_client_secret=hunter2",
        "postgresql://db/dataflow?%70assword=hunter2",
        "postgresql://etl:p@ss-hunter2@db/dataflow",
        "postgresql://etl:my hunter2@db/dataflow",
        "postgresql://etl%3Ahunter2%40db/dataflow",
        "postgresql://db/dataflow?host=x%20password%3Dhunter2",
        "postgresql://db/dataflow?dbname=postgresql://etl:hunter2@db/x",
        "postgresql://db/dataflow?sslmode=require;password=hunter2",
        "postgresql://db/dataflow%3Fpassword%3Dhunter2",
        "password=hunter2/with/slashes",
        "AccountKey=hunter2/x==;EndpointSuffix=example",
        "dbname=x password='a\\'hunter2'",
        "its url = 'jdbc:sqlserver://db;trustStorePassword=hunter2', which is not declared",
        """{"user": "etl", "password": "hunter2"}""",
        "https://hunter2@git.example/{dataid}",
        "Authorization: Bearer hunter2",
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
        "token={dataid}/part.csv",
        "raw/someone@example:7/{dataid}",
        "{'tokens_used': '7'}",
        "token=eu",
        "http://db.example:8080?to=a@b",
        "2025-11-12T10:00:00@east",
        "12:30@east",
        "mailto:olga@example.com",
        "raw/day@east/{dataid}",
        "select * from t where token = 1 and secret = true",
        "jdbc:x://db;usePassword=false",
        "https://db.example/x@y",
        "scott/day@EAST",
        "token: expected text",
    ],
)
def test_an_address_without_one(address: str) -> None:
    assert not holds_secret(address)
    assert without_secrets(address) == address


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("env.X", "token=hunter2"),
        ("env.X", "sas_token=hunter2"),
        ("env.X", "sig=hunter2&sv=1"),
        ("env.X", "pass=hunter2"),
        ("env.X", "Bearer hunter2"),
        ("env.X", "X-Api-Key: hunter2"),
        ("env.CONN", "scott/hunter2@ORCL"),
        ("options.tags", "password=hunter2"),
        ("username", "etl:hunter2"),
        ("username", "etl/hunter2"),
        ("why", "token=hunter2"),
        ("why", "password: hunter2"),
        ("why", "the login is: password=hunter2"),
        ("why", "scott/hunter2@ORCL is locked"),
    ],
)
def test_a_text_that_is_no_location_may_begin_with_a_secret(name: str, text: str) -> None:
    assert holds_secret(text, name)
    assert "hunter2" not in without_secrets(text, name)
    assert without_secrets(text, name) == shown_facts(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("env.X", "raw/a/b@c"),
        ("env.X", "a/b@c.csv"),
        ("env.X", "A/B@C/D"),
        ("env.X", "12:30"),
        ("env.X", "2025-11-12T10:00:00@east"),
        ("env.X", "olga@example.com"),
        ("env.X", "hdfs/nn.example.com@EXAMPLE.COM"),
        ("env.X", "arn:aws:secretsmanager:eu:1:secret:prod/db-Ab"),
        ("env.X", "https://vault.example:8200/v1/secret/etl"),
        ("location", "token=eu/{dataid}"),
        ("options.schema", "id INT, t STRUCT<token: STRING>"),
        ("username", "1000:1000"),
        ("username", "DOMAIN\\etl"),
        ("username", "etl@tenant"),
        ("why", "Bearer token was rotated"),
        ("why", "read raw/a@b/c at 12:30"),
        ("options.secrets", "file"),
        ("checks.accepted.token", "hunter2"),
    ],
)
def test_an_ordinary_text_under_a_name_is_no_secret(name: str, text: str) -> None:
    *tables, key = name.split(".")
    facts: object = {key: text}
    for table in reversed(tables):
        facts = {table: facts}
    assert secret_in(facts) == ()
    assert shown_facts(facts) == facts


@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "aB3" * 12,
        "github_pat_" + "aB3_" * 20,
        "glpat-" + "aB3-" * 5,
        "xoxb-" + "1234567890-aB3",
        "dapi" + "0a" * 16,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEaB3/aB3+\naB3==\n-----END RSA PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----MIIEaB3",
    ],
)
@pytest.mark.parametrize("name", ["env.X", "location", "why", ""])
def test_a_token_or_key_of_a_known_form_is_a_secret_under_any_name(name: str, token: str) -> None:
    for text in (token, f"use {token}", f"https://api.example/{token}/x"):
        assert holds_secret(text, name)
        shown = without_secrets(text, name)
        assert "aB3" not in shown
        assert token not in shown


@pytest.mark.parametrize(
    "text", ["ghp_short", "dapi-table", "eyJ.eyJ.x", "xoxb-", "glpat-{dataid}", "-----BEGIN CERTIFICATE-----\nMIIEaB3"]
)
def test_what_only_begins_like_a_token_is_none(text: str) -> None:
    assert not holds_secret(text, "env.X")


def test_the_names_of_all_tables_around_a_text_are_its_name() -> None:
    facts = {"options": {"fs": {"s3a": {"secret": {"key": "S1"}}, "azure": {"account": {"key": ["S2"]}}}}}
    assert secret_in(facts) == ("options", "fs", "s3a", "secret", "key")
    assert "S1" not in str(shown_facts(facts))
    assert "S2" not in str(shown_facts(facts))


def test_a_switch_or_a_small_number_is_no_secret_under_any_name() -> None:
    assert holds_secret("hunter2", "API_TOKEN")
    assert not any(holds_secret(value, "REQUIRE_PASSWORD") for value in ("", "true", "No", "5"))


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
        ("hunter2", "this"),
        ("etl:hunter2", "this"),
        ("mysql://etl:hunter2@db/flow", "mysql://…"),
        ("postgresql://db/flow?user=etl:hunter2", "postgresql://…"),
        ("postgresql://etl%40tenant@db/flow?hostaddr=::1", "postgresql://etl%40tenant@db/flow?hostaddr=::1"),
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


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("""{"password": "a'hunter2", "to": "y@z"}""", """{"password": "[redacted]", "to": "y@z"}"""),
        ("""{"dsn":"host=db password=hunter2"}""", """{"dsn":"host=db password=[redacted]"}"""),
        ("""its url = 'jdbc:x://db;pwd=hunter2'""", """its url = 'jdbc:x://db;pwd=[redacted]'"""),
        ("password='hunter 2' host=db", "password='[redacted]' host=db"),
        ("password = hunter2, sslmode = require", "password = [redacted], sslmode = require"),
    ],
)
def test_what_stands_around_a_secret_stays(said: str, shown: str) -> None:
    assert without_secrets(said) == shown
    assert without_secrets(shown) == shown, "what is redacted stays as it is"


@pytest.mark.parametrize(
    "piece",
    [
        "oracle:a:",
        "a/",
        " a/b",
        "pwd={;",
        "://a:",
        ",a=",
        "(pwd=}",
        "pwd='\\",
        "'pwd':",
        "a ",
        "\"'",
        "a: ",
        "a/b@C",
        "Bearer ",
        "eyJaaaaaaaa.",
        "eyJ",
        "xoxb-",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_a_text_that_is_made_to_take_long_takes_linear_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    for name in ("", "why", "username"):
        assert len(without_secrets(text + "=@", name)) > 0


def test_an_encrypted_value_that_happens_to_spell_the_name_of_a_secret_is_none():
    java = "9fMMQQTOgIvLDLj7yqXs5zofVi9U1hpWDxxjK1ncUg=="  # pWD, and what follows the first =
    assert not holds_secret(java, "encryptedpass")
    assert secret_in({"encryptedpass": java}) == ()
    assert without_secrets(java, "encryptedpass") == java
