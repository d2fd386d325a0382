"""[web]: how the console is reached, and that no token is ever in the file or in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.errors import OdfError
from opendataflow.project import load
from opendataflow.project.settings import Proxy, Token, Web
from opendataflow.project.web import hash_of, is_token, new_token

TOKEN = (
    "odfw_" + "Gz4-q_7T" * 5 + "abc"
)  # always the same: it is in the names of tests, which all workers must agree on
HASH = hash_of(TOKEN)
CANARY = "hunter2-canary"


@pytest.fixture
def read(tmp_path: Path):
    """What a project file with this text says about [web]."""

    def read(text: str) -> Web:
        (tmp_path / "dataflow.toml").write_text(text)
        return load(tmp_path / "dataflow.toml").web

    return read


def test_without_the_table_only_this_machine_is_listened_to_and_nobody_has_a_token(read) -> None:
    assert read("") == Web() == read("[web]\n")
    assert not Web().knows_visitors
    assert Web().listen.startswith("127.0.0.1:")


def test_all_of_it_is_read(read) -> None:
    web = read(
        f"""
[web]
listen = "0.0.0.0:9000"
hosts = ["Console.example.org", "[::1]:9000"]
[web.token.anna]
role = "operator"
hash = "{HASH}"
[web.proxy]
header = "X-Forwarded-User"
address = ["10.0.0.5", "fd00::/64"]
role = "viewer"
users = {{ "bob@example.org" = "admin" }}
"""
    )
    assert web.listen == "0.0.0.0:9000"
    assert web.hosts == ("console.example.org", "[::1]:9000")
    assert web.tokens == (Token("anna", "operator", HASH),)
    assert web.knows_visitors
    proxy = web.proxy
    assert isinstance(proxy, Proxy)
    assert [proxy.role_of(user) for user in ("bob@example.org", "eve")] == ["admin", "viewer"]
    assert [proxy.is_from(a) for a in ("10.0.0.5", "::ffff:10.0.0.5", "fd00::1")] == [True] * 3
    assert [proxy.is_from(a) for a in ("10.0.0.6", "127.0.0.1", "::1", "", "unix")] == [False] * 5


def test_a_user_whom_the_proxy_names_may_nothing_unless_he_or_all_have_a_role(read) -> None:
    web = read('[web.proxy]\nheader = "Remote-User"\naddress = "127.0.0.1"\nusers = { ann = "viewer" }\n')
    assert web.proxy is not None
    assert (web.proxy.role_of("ann"), web.proxy.role_of("eve")) == ("viewer", "")


def test_a_token_is_known_by_its_hash_alone(read) -> None:
    web = read(f'[web.token.anna]\nrole = "viewer"\nhash = "{HASH}"\n')
    assert web.token_of(TOKEN) == Token("anna", "viewer", HASH)
    for other in ("", TOKEN[:-1], TOKEN + "x", HASH, new_token()[0], "\udcff", "é"):
        assert web.token_of(other) is None
    assert HASH not in repr(web)
    token, hash = new_token()
    assert (token[:5], len(token)) == ("odfw_", len(TOKEN))
    assert is_token(token, hash)


@pytest.mark.parametrize(
    "text",
    [
        f'[web]\ntoken = "{CANARY}"',
        f'[web]\ntoken = ["{CANARY}"]',
        f'[web.token]\nanna = "{CANARY}"',
        f'[web.token.anna]\nrole = "viewer"\ntoken = "{CANARY}"',
        f'[web.token.anna]\nrole = "viewer"\nhash = "{CANARY}"',
        f'[web.token.anna]\nrole = "viewer"\nhash = ["{CANARY}"]',
        f'[web.token.anna]\nrole = "viewer"\nhash = "sha256:{CANARY}"',
        f'[web.token.anna]\nrole = "viewer"\nhash = "{TOKEN}"',
        f'[web.token.anna]\nrole = "{TOKEN}"',
        f'[web.token.{TOKEN}]\nrole = "viewer"',
        f'[web]\nhosts = ["{TOKEN}"]',
        f'[web]\nlisten = "x{TOKEN}"',
        f'[web]\npassword = "{CANARY}"',
        f'[web.token.anna]\nrole = "viewer"\nhash = "{HASH.upper()}"',
    ],
)
def test_a_token_in_plain_text_is_refused_and_never_repeated(read, text: str) -> None:
    with pytest.raises(OdfError) as refused:
        read(text)
    assert refused.value.name == "BAD_CONFIG"
    assert CANARY not in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert HASH.upper() not in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[web]\nport = 80", "port: there is no such key"),
        ('[web]\nlisten = "everywhere"', "listen: 'everywhere' is not an address"),
        ("[web]\nlisten = 80", "listen: expected text"),
        ('[web]\nhosts = ["http://a/"]', "is not the name of a host"),
        ('[web]\nhosts = ["*"]', "is not the name of a host"),
        (f'[web.token.anna]\nhash = "{HASH}"', "role: the key is missing"),
        (f'[web.token.anna]\nrole = "root"\nhash = "{HASH}"', 'role: expected "viewer" or "operator" or "admin"'),
        (f'[web.token."a b"]\nrole = "viewer"\nhash = "{HASH}"', "cannot be the id of a token"),
        (
            f'[web.token.a]\nrole = "viewer"\nhash = "{HASH}"\n[web.token.b]\nrole = "admin"\nhash = "{HASH}"',
            "two names have the same token",
        ),
        ('[web.proxy]\naddress = "10.0.0.5"', "header: the key is missing"),
        ('[web.proxy]\nheader = "X-User"', "address: the key is missing"),
        ('[web.proxy]\nheader = "Cookie"\naddress = "10.0.0.5"', "'Cookie' does not name a user"),
        ('[web.proxy]\nheader = "X User"\naddress = "10.0.0.5"', "'X User' does not name a user"),
        ('[web.proxy]\nheader = "X-User"\naddress = "proxy.local"', "neither an IP address nor a network"),
        ('[web.proxy]\nheader = "X-User"\naddress = "0.0.0.0/0"', "includes every address"),
        ('[web.proxy]\nheader = "X-User"\naddress = "::/0"', "includes every address"),
        ('[web.proxy]\nheader = "X-User"\naddress = "10.0.0.5"\nusers = { a = "boss" }', "there is no role 'boss'"),
        ('[web.proxy]\nheader = "X-User"\naddress = "10.0.0.5"\nusers = { "" = "viewer" }', "is not a valid user name"),
        ('[web.proxy]\nheader = "X-User"\naddress = "10.0.0.5"\nuser = "a"', "user: there is no such key"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(read, text: str, said: str) -> None:
    with pytest.raises(OdfError) as refused:
        read(text)
    assert refused.value.message.startswith("dataflow.toml: [web")
    assert said in refused.value.message
