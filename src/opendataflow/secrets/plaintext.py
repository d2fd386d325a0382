"""Passwords that anybody could read: how to recognise one where only ciphertext belongs."""

from __future__ import annotations

import re
from urllib.parse import unquote

_WORDS = ("password", "passwd", "pass", "pwd")

# After the colon of a login comes anything up to the @; after that of a host, a port and a slash.
_login = re.compile(r"://[^@/:\[]*:(?!\d*/)([^@]+)@")
_parameter = re.compile(rf"[?&;](?:ssl)?(?:{'|'.join(_WORDS)})=([^&;]*)", re.IGNORECASE)


def is_password_name(name: str) -> bool:
    """Whether a value under this name is a password."""
    return name.lower().rpartition(".")[2] in _WORDS


def holds_password(address: str) -> bool:
    """Whether an address carries a password, before its host or among its parameters."""
    return bool(_login.search(address) or _parameter.search(unquote(address)))


def passwords_in(address: str) -> list[str]:
    """The passwords that an address carries, as written and as meant."""
    found = [*_login.findall(address), *_parameter.findall(address), *_parameter.findall(unquote(address))]
    return [*found, *map(unquote, found)]
