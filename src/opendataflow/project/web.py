"""[web]: where the console listens and who may do what there, as the project file declares it, never the store."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_network
from secrets import token_urlsafe

from ..errors import BadId
from ..model import check_id
from ..model.ids import shown
from ..model.listen import Address
from .declared import DEFAULT_LISTEN, Proxy, Token, Web
from .section import TEXT_TABLE, Section, nearest, one_of, quoted

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
ROLES = (VIEWER, OPERATOR, ADMIN)  # each may do what those before it may
LONGEST_USER = 128  # characters of the name that a proxy tells
TOKEN_PREFIX = "odfw_"  # by which a token is known wherever it turns up

_FORM = "sha256:"
_RANDOM_BYTES = 32

_is_hash = re.compile(_FORM + "[0-9a-f]{64}").fullmatch
_is_token = re.compile(TOKEN_PREFIX + "[A-Za-z0-9_-]{43}").fullmatch
_is_header = re.compile("[A-Za-z][A-Za-z0-9-]{0,63}").fullmatch
_is_host = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?").fullmatch
_is_host6 = re.compile(r"\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?").fullmatch

# What a browser or every server sets by itself: nobody is named by that.
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
    """A new token, which is shown once, and its hash, which is kept."""
    token = TOKEN_PREFIX + token_urlsafe(_RANDOM_BYTES)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    """The hash of a token: it has 256 random bits, so that nobody can try them all however fast the hash is."""
    return _FORM + sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_token(text: str, hash: str) -> bool:
    """Whether this is the token with that hash, in a time that does not depend on where it differs."""
    return compare_digest(hash_of(text), hash)


def read_web(section: Section) -> Web:
    """How the console is reached."""
    _refuse_tokens(section)
    section.refuse_passwords("a hash")
    section.only(("listen", "hosts", "token", "proxy"))
    listen = section.text("listen", DEFAULT_LISTEN)
    with section.at("listen"):
        Address.parse(listen, Address.parse(DEFAULT_LISTEN).port)
    hosts = tuple(_host(section, name) for name in section.texts("hosts"))
    tokens = tuple(_token(each) for each in section.tables("token"))
    if len({token.hash for token in tokens}) < len(tokens):
        raise section.wrong("token", "two names have the same token", "Who did it could not be told. Make another one.")
    return Web(listen, hosts, tokens, _proxy(section.inner("proxy")) if "proxy" in section else None)


def _refuse_tokens(section: Section) -> None:
    """Nothing that could be a token is ever repeated: it is looked for before anything else can complain."""
    tokens = section.data.get("token", {})
    if not isinstance(tokens, dict) or any(_holds_token(value) for value in _texts(section.data)):
        raise section.wrong("token", "this is a token in plain text", _how())


def _how(name: str = "NAME", role: str = VIEWER) -> str:
    return f"Make one, and write what is printed: odf serve --new-token {name} --role {role}"


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
        raise section.wrong("token", "this is a token in plain text", _how(section.name))
    section.only(("role", "hash"))
    if "role" not in section:
        raise section.wrong("role", "it is missing", f"Write what this one may do: {', '.join(ROLES)}.")
    role = section.get("role", one_of(*ROLES))
    hash = section.data.get("hash", "")
    if not isinstance(hash, str) or not _is_hash(hash):  # never repeated: it may be the token itself
        raise section.wrong("hash", f"expected {_FORM} and 64 hexadecimal digits", _how(section.name, role))
    return Token(section.name, role, hash)


def _host(section: Section, name: str) -> str:
    """A name that browsers may use for this server, in the form of a Host header."""
    if not (_is_host(name) or _is_host6(name)):
        hint = (
            "Write the name that people type into the browser, like console.example.org, with its port if it has one."
        )
        raise section.wrong("hosts", f"{shown(name)} is not the name of a host", hint)
    return name.lower()


def _proxy(section: Section) -> Proxy:
    section.only(("header", "address", "users", "role"))
    header = section.text("header")
    if not _is_header(header) or header.lower() in _TAKEN_HEADERS:
        hint = "Write the header in which the proxy names its user, like X-Forwarded-User."
        raise section.wrong("header", f"{shown(header)} names nobody" if header else "it is missing", hint)
    addresses = tuple(_network(section, text) for text in section.texts("address"))
    if not addresses:
        raise section.wrong("address", "it is missing", "Anybody could send that header: write the proxy's address.")
    users: dict[str, str] = section.get("users", TEXT_TABLE, {})
    for user, role in users.items():
        _check_user(section, user)
        if role not in ROLES:
            raise section.wrong(f"users.{quoted(user)}", f"there is no role {shown(role)}", nearest(role, ROLES))
    return Proxy(header, addresses, users, section.get("role", one_of(*ROLES), ""))


def _check_user(section: Section, user: str) -> None:
    """Refuse a user whom no event could name."""
    if not user or len(user) > LONGEST_USER or not user.isprintable():
        with section.at("users"):
            raise BadId(
                f"{shown(user)} cannot be a user", hint=f"Write 1 to {LONGEST_USER} characters that can be printed."
            )


def _network(section: Section, text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError:
        hint = "Write an IP address like 10.0.0.5, or a network like 10.0.0.0/24."
        raise section.wrong("address", f"{shown(text)} is neither an IP address nor a network", hint) from None
    if network.prefixlen == 0:
        raise section.wrong(
            "address", f"{text} is everybody", "Anybody could send that header: write the proxy's address."
        )
    return network
