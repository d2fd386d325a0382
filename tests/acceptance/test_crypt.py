"""crypt: no secret on a command line, one message for every failure, and a new key in one transaction."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow import Dataset, Store
from opendataflow.errors import BadDefinition
from opendataflow.secrets import Key, dataset_context, decrypt, encrypt, is_bound
from tests.support.flows import dump
from tests.support.odf import Odf

JAVA = "java-secret"
KEY = {"PASSKEY": "correct horse"}


def java(plaintext: str, passphrase: str) -> str:
    """What the Java tool writes: base64 of a 12-byte IV and AES-256-GCM, key = first 32 bytes of SHA-512."""
    import base64
    import hashlib

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    iv = os.urandom(12)
    return base64.b64encode(
        iv + AESGCM(hashlib.sha512(passphrase.encode()).digest()[:32]).encrypt(iv, plaintext.encode(), None)
    ).decode()


@pytest.fixture
def odf(tmp_path: Path) -> Odf:
    """The command line with a store of its own that does not matter."""
    return Odf(tmp_path, f"sqlite:///{tmp_path}/store.db")


def test_a_value_goes_round(odf: Odf):
    odf("dml", "insert into dataset (datasetid) values ('orders')")
    token = odf("crypt", "encrypt", "--for", "orders", stdin="s3cret\n", **KEY).out.strip()
    assert decrypt(token, Key("correct horse"), "dataset/orders/encryptedpass") == "s3cret"
    assert odf("crypt", "decrypt", "--for", "orders", "--yes-print", token, **KEY).out == "s3cret\n"
    assert odf("crypt", "decrypt", "--for", "orders", "--yes-print", stdin=token + "\n", **KEY).out == "s3cret\n"
    store_token = odf("crypt", "encrypt", "--for-store", "--json", stdin="s3cret", **KEY).data
    assert store_token["context"] == "store/password"
    assert decrypt(store_token["token"], Key("correct horse"), "store/password") == "s3cret"


def test_a_placeholder_does_not_stop_its_token_from_being_made(odf: Odf):
    toml = """
[dataset.orders]
kind = "table"
format = "postgres"
hostname = "localhost"
database = "shop"
tablename = "orders"
username = "etl"
encryptedpass = "TOKEN"
"""
    file = odf.folder / "dataflow.toml"
    file.write_text(toml)
    token = odf("crypt", "encrypt", "--for", "orders", stdin="s3cret\n", **KEY).out.strip()
    assert "encryptedpass" in odf("apply", "--yes", code=2).err
    file.write_text(toml.replace("TOKEN", token))
    odf("apply", "--yes")
    assert odf("crypt", "decrypt", "--for", "orders", "--yes-print", token, **KEY).out == "s3cret\n"


def test_placeholders_of_every_kind_may_stand_side_by_side(odf: Odf):
    toml = """
[project]
timezone = "UTC"
[store]
url = "postgresql://etl@127.0.0.1/shop"
encrypted = "TOKEN"
[dataset.db]
kind = "table"
format = "postgres"
hostname = "localhost"
database = "shop"
tablename = "orders"
username = "etl"
encryptedpass = "TOKEN"
[environment.test.dataset.db]
encryptedpass = "TOKEN"
[lineage]
to = "https://127.0.0.1/api"
encrypted = "TOKEN"
[notify.a]
encrypted = "TOKEN"
[[notify.rule]]
on = "failed"
to = "a"
"""
    (odf.folder / "dataflow.toml").write_text(toml)
    for owner in (["--for", "db"], ["--for-lineage"], ["--for-notify", "a"], ["--for-store"]):
        token = odf("crypt", "encrypt", *owner, stdin="https://127.0.0.1/x\n", **KEY).out.strip()
        assert token.startswith("odf"), owner
    assert "this is not a token" in odf("status", code=2).err


@pytest.mark.fault(25)
def test_the_plaintext_is_never_an_argument(odf: Odf):
    answer = odf("crypt", "encrypt", "--for", "orders", "s3cret", code=2, **KEY)
    assert answer.err.startswith("USAGE")
    assert "s3cret" not in answer.err


def test_the_plaintext_is_printed_only_to_a_terminal(odf: Odf):
    token = encrypt("s3cret", Key("correct horse"), "dataset/orders/encryptedpass")
    answer = odf("crypt", "decrypt", "--for", "orders", token, code=2, **KEY)
    assert "--yes-print" in answer.err
    assert "s3cret" not in answer.out + answer.err
    main, side = pty.openpty()
    environ = {**os.environ, **KEY, "ODF_STORE": odf.store_url}
    command = [sys.executable, "-m", "opendataflow", "crypt", "decrypt", "--for", "orders", token]
    done = subprocess.run(
        command,
        cwd=odf.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=side,
        timeout=240,
        check=False,
    )
    os.close(side)
    assert done.returncode == 0
    assert b"s3cret" in os.read(main, 1000)
    os.close(main)


@pytest.mark.fault(23)
def test_every_failure_has_the_same_message(odf: Odf):
    token = encrypt("s3cret", Key("correct horse"), "dataset/orders/encryptedpass")
    tampered = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    foreign = encrypt("s3cret", Key("correct horse"), "dataset/other/encryptedpass")
    failures = {
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", token, code=17, PASSKEY="wrong").err,
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", tampered, code=17, **KEY).err,
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", foreign, code=17, **KEY).err,
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", "rubbish", code=17, **KEY).err,
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", java("s3cret", "wrong"), code=17, **KEY).err,
    }
    assert len(failures) == 1
    assert failures.pop().startswith("BAD_KEY")


def test_without_a_key_it_says_where_one_may_be(odf: Odf):
    answer = odf("crypt", "encrypt", "--for", "orders", stdin="x", code=17)
    assert "PASSKEY_FILE" in answer.err
    assert odf("crypt", "encrypt", stdin="x", code=2, **KEY).err.startswith("USAGE")
    assert odf("crypt", "encrypt", "--for", "../x", stdin="x", code=2, **KEY).err.startswith("BAD_ID")
    assert "nothing to encrypt" in odf("crypt", "encrypt", "--for", "x", "--hostname", "", stdin="", code=2, **KEY).err


def test_the_java_tool_s_value_is_read_with_a_hint(odf: Odf):
    answer = odf("crypt", "decrypt", "--for", "orders", "--yes-print", java(JAVA, "correct horse"), **KEY)
    assert answer.out == JAVA + "\n"
    assert "odf crypt rekey" in answer.err


def test_the_key_may_come_from_a_file_or_a_command(odf: Odf):
    file = odf.folder / "key"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    token = odf(
        "crypt", "encrypt", "--for", "orders", "--hostname", "", stdin="s3cret", PASSKEY_FILE=str(file)
    ).out.strip()
    assert (
        odf("crypt", "decrypt", "--for", "orders", "--yes-print", token, PASSKEY_COMMAND="echo 'correct horse'").out
        == "s3cret\n"
    )


def test_rekey_renews_every_password_in_one_transaction(tmp_path: Path, store_url: str, store: Store):
    odf = Odf(tmp_path, store_url)
    ours = encrypt("one", Key("correct horse"), "dataset/a/encryptedpass")
    store.register(
        [Dataset("a", encryptedpass=ours), Dataset("b", encryptedpass=java("two", "correct horse")), Dataset("c")]
    )
    before = dump(store)
    new = {**KEY, "NEW_PASSKEY": "battery staple"}
    planned = odf("crypt", "rekey", "--all", "--dry-run", "--json", **new).data["rekeyed"]
    assert [(each["dataset"], each["was"]) for each in planned] == [("a", "today's form"), ("b", "Java's form")]
    assert dump(store) == before
    odf("crypt", "rekey", "--all", **new)
    found = store.catalogue().datasets
    assert [
        decrypt(found[name].encryptedpass, Key("battery staple"), f"dataset/{name}/encryptedpass") for name in "ab"
    ] == ["one", "two"]
    assert found["c"].encryptedpass == ""
    before = dump(store)
    assert odf("crypt", "rekey", "--all", code=17, **new).err.startswith("BAD_KEY"), "the old key opens nothing"
    assert odf("crypt", "rekey", "--all", code=2, **KEY).err.startswith("BAD_CONFIG")
    assert odf("crypt", "rekey", code=2, **new).err.startswith("USAGE")
    assert odf("crypt", "rekey", "--for", "c", code=2, **new).err.startswith("USAGE")
    assert dump(store) == before


def test_one_bad_value_leaves_all_as_they_were(tmp_path: Path, store_url: str, store: Store):
    odf = Odf(tmp_path, store_url)
    good = encrypt("one", Key("correct horse"), "dataset/a/encryptedpass")
    swapped = encrypt("two", Key("correct horse"), "dataset/a/encryptedpass")
    store.register([Dataset("a", encryptedpass=good), Dataset("b", encryptedpass=swapped)])
    before = dump(store)
    assert "dataset/b/encryptedpass" in odf("crypt", "rekey", "--all", code=17, **KEY, NEW_PASSKEY="x").err
    assert dump(store) == before
    odf("crypt", "rekey", "--for", "a", **KEY, NEW_PASSKEY="x")
    assert decrypt(store.catalogue().datasets["a"].encryptedpass, Key("x"), "dataset/a/encryptedpass") == "one"


AT = ("--hostname", "db.example", "--database", "shop", "--username", "etl")


def test_a_token_is_bound_to_the_address_of_the_project_file_else_of_the_store_else_of_the_options(odf: Odf):
    encrypt_it = ("crypt", "encrypt", "--for", "orders", "--json")
    refused = odf(*encrypt_it, stdin="s3cret", code=2, **KEY).data
    assert "dataflow.toml" in refused["hint"]
    assert "--hostname" in refused["hint"]
    said = odf(*encrypt_it, *AT, stdin="s3cret", **KEY).data
    assert said["address"] == "etl@db.example/shop"
    odf("dml", "insert into dataset (datasetid, hostname, username) values ('orders', 'store.example', 'etl')")
    stored = odf(*encrypt_it, stdin="s3cret", **KEY)
    assert stored.data["address"] == "etl@store.example"
    assert odf(*encrypt_it, *AT, stdin="s3cret", code=2, **KEY).data["error"] == "USAGE"
    (odf.folder / "dataflow.toml").write_text(
        "[dataset.orders]\ntablename = 't'\nhostname = 'dev.example'\n[environment.dev]\nroots = ['.']\n"
        "[environment.prod]\nroots = ['.']\n[environment.prod.dataset.orders]\nhostname = 'prod.example'\n"
    )
    assert odf(*encrypt_it, stdin="s3cret", **KEY).data["address"] == "dev.example"
    prod = odf(*encrypt_it, "--env", "prod", stdin="s3cret", **KEY).data
    assert prod["address"] == "prod.example"
    read = ("crypt", "decrypt", "--for", "orders", "--yes-print", prod["token"])
    assert odf(*read, "--env", "prod", **KEY).out == "s3cret\n"
    assert "host, port, database or user changed" in odf(*read, code=17, **KEY).err


def test_rekey_renews_under_the_same_key_and_binds_to_the_address_where_a_person_agrees(
    tmp_path: Path, store_url: str, store: Store
):
    odf = Odf(tmp_path, store_url)
    here = Dataset("here", username="etl", encryptedpass=java("one", "correct horse"))
    far = Dataset("far", hostname="db.example", encryptedpass=java("two", "correct horse"))
    store.register([here, far])
    weak = {
        each["found"]: each["mend"]
        for each in odf("doctor", "--json", code=1, **KEY).data
        if each["what"] == "password"
    }
    assert sorted(weak) == [f"dataset {name}: weak, since Java's form" for name in ("far", "here")]
    assert all("odf crypt rekey --for " in mend and "--same-key" in mend for mend in weak.values())
    before = dump(store)
    refused = odf("crypt", "rekey", "--all", "--same-key", code=2, **KEY)
    assert "only the store says that dataset far is at db.example" in refused.err
    assert "--yes" in refused.err
    assert odf("crypt", "rekey", "--all", "--same-key", code=2, NEW_PASSKEY="x", **KEY).err.startswith("USAGE")
    assert dump(store) == before
    odf("crypt", "rekey", "--for", "here", "--same-key", **KEY)
    odf("crypt", "rekey", "--for", "far", "--same-key", "--yes", **KEY)
    found = store.catalogue().datasets
    assert [
        decrypt(found[name].encryptedpass, Key("correct horse"), dataset_context(found[name]))
        for name in ("here", "far")
    ] == [
        "one",
        "two",
    ]
    assert all(is_bound(found[name].encryptedpass) for name in ("here", "far"))
    assert not [each for each in odf("doctor", "--json", **KEY).data if each["what"] == "password"]


def test_the_doctor_finds_that_a_stored_password_has_no_key(tmp_path: Path, store_url: str, store: Store):
    odf = Odf(tmp_path, store_url)
    (key,) = (each for each in odf("doctor", "--json").data if each["what"] == "key")
    assert key["ok"] is None, "nothing needs one"
    store.register([Dataset("bob", username="etl")])
    token = odf("crypt", "encrypt", "--for", "bob", stdin="sesame\n", **KEY).out.strip()
    store.register([Dataset("bob", username="etl", encryptedpass=token)])
    (key,) = (each for each in odf("doctor", "--json", code=1).data if each["what"] == "key")
    assert key["ok"] is False
    assert "1 password in the store cannot be opened" in key["found"]


@pytest.mark.fault(31)
def test_what_is_not_a_token_is_not_registered(store: Store):
    with pytest.raises(BadDefinition) as caught:
        store.register([Dataset("a", encryptedpass="sesame")])
    assert "sesame" not in str(caught.value)
    assert "a" not in store.catalogue().datasets
