"""Reads the table [web]: the console's listen address, host names, tokens and proxy. The store cannot change them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_network
from secrets import token_urlsafe

from ..errors import BadId
from ..model import check_id
from ..model.definitions.ids import shown
from ..model.listen_address import ListenAddress
from .section import TEXT_TABLE, Section, nearest, one_of, quoted
from .settings import DEFAULT_LISTEN, Proxy, Token, Web

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
ROLES = (VIEWER, OPERATOR, ADMIN)  # each may do what those before it may
LONGEST_USER = 128  # characters of a user name from a proxy
TOKEN_PREFIX = "odfw_"  # recognisable in logs and files

_FORM = "sha256:"
_RANDOM_BYTES = 32

_is_hash = re.compile(_FORM + "[0-9a-f]{64}").fullmatch
_is_token = re.compile(TOKEN_PREFIX + "[A-Za-z0-9_-]{43}").fullmatch
_is_header = re.compile("[A-Za-z][A-Za-z0-9-]{0,63}").fullmatch
_is_host = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?").fullmatch
_is_host6 = re.compile(r"\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?").fullmatch

# Headers that browsers or servers set themselves: they do not identify a user.
_TAKEN_HEADERS = frozenset(
    (
        "accept",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "origin",
        "referer",
        "transfer-encoding",
        "user-agent",
        "x-odf-csrf",
    )
)


def new_token() -> tuple[str, str]:
    """A new token, which is shown once, and its hash, which is stored."""
    token = TOKEN_PREFIX + token_urlsafe(_RANDOM_BYTES)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    """The hash of a token. A fast hash is safe, since a token has 256 random bits."""
    return _FORM + sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_token(text: str, hash: str) -> bool:
    """Whether a token has this hash, compared in constant time."""
    return compare_digest(hash_of(text), hash)


def read_web(section: Section) -> Web:
    """The console's settings."""
    _refuse_tokens(section)
    section.refuse_passwords("a hash", skip=("token",))
    section.only(("listen", "hosts", "token", "proxy"))
    listen = section.text("listen", DEFAULT_LISTEN)
    with section.at("listen"):
        ListenAddress.parse(listen, ListenAddress.parse(DEFAULT_LISTEN).port)
    hosts = tuple(_host(section, name) for name in section.texts("hosts"))
    tokens = tuple(_token(each) for each in section.tables("token"))
    if len({token.hash for token in tokens}) < len(tokens):
        raise section.wrong("token", "two names have the same token", "Create another token for one of them.")
    return Web(listen, hosts, tokens, _proxy(section.inner("proxy")) if "proxy" in section else None)


def _refuse_tokens(section: Section) -> None:
    """Refuse plaintext tokens before any other error could repeat them."""
    tokens = section.data.get("token", {})
    if not isinstance(tokens, dict) or any(_holds_token(value) for value in _texts(section.data)):
        raise section.wrong("token", "this is a token in plain text", _create_hint())


def _create_hint(name: str = "NAME", role: str = VIEWER) -> str:
    return f"Create a token, and write the printed lines here: odf serve --new-token {name} --role {role}"


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _holds_token(text: str) -> bool:
    return any(_is_token(text[at : at + 48]) for at in range(len(text)) if text.startswith(TOKEN_PREFIX, at))


def _token(section: Section) -> Token:
    with section.at():
        check_id("token", section.name)
    if "token" in section or "secret" in section:
        raise section.wrong("token", "this is a token in plain text", _create_hint(section.name))
    section.only(("role", "hash"))
    if "role" not in section:
        raise section.wrong("role", "the key is missing", f"Write one of the roles: {', '.join(ROLES)}.")
    role = section.get("role", one_of(*ROLES))
    hash = section.data.get("hash", "")
    if not isinstance(hash, str) or not _is_hash(hash):  # the message omits the value: it may be the token itself
        raise section.wrong("hash", f"expected {_FORM} and 64 hexadecimal digits", _create_hint(section.name, role))
    return Token(section.name, role, hash)


def _host(section: Section, name: str) -> str:
    """A host name of this server, in the form of a Host header."""
    if not (_is_host(name) or _is_host6(name)):
        hint = "Write the name that users type into the browser, like console.example.org, with its port if any."
        raise section.wrong("hosts", f"{shown(name)} is not the name of a host", hint)
    return name.lower()


def _proxy(section: Section) -> Proxy:
    section.only(("header", "address", "users", "role"))
    header = section.text("header")
    if not _is_header(header) or header.lower() in _TAKEN_HEADERS:
        hint = "Write the header in which the proxy names its user, like X-Forwarded-User."
        raise section.wrong("header", f"{shown(header)} does not name a user" if header else "the key is missing", hint)
    addresses = tuple(_network(section, text) for text in section.texts("address"))
    if not addresses:
        raise section.wrong(
            "address", "the key is missing", "Write the proxy's address: other clients could send the header."
        )
    users: dict[str, str] = section.get("users", TEXT_TABLE, {})
    for user, role in users.items():
        _check_user(section, user)
        if role not in ROLES:
            raise section.wrong(f"users.{quoted(user)}", f"there is no role {shown(role)}", nearest(role, ROLES))
    return Proxy(header, addresses, users, section.get("role", one_of(*ROLES), ""))


def _check_user(section: Section, user: str) -> None:
    """Refuse a user name that events cannot store."""
    if not user or len(user) > LONGEST_USER or not user.isprintable():
        with section.at("users"):
            raise BadId(
                f"{shown(user)} is not a valid user name", hint=f"Write 1 to {LONGEST_USER} printable characters."
            )


def _network(section: Section, text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError:
        hint = "Write an IP address like 10.0.0.5, or a network like 10.0.0.0/24."
        raise section.wrong("address", f"{shown(text)} is neither an IP address nor a network", hint) from None
    if network.prefixlen == 0:
        raise section.wrong(
            "address",
            f"{text} includes every address",
            "Write the proxy's address: other clients could send the header.",
        )
    return network
