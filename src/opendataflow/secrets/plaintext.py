"""Passwords that anybody could read: how to recognise one where only ciphertext belongs."""

from __future__ import annotations

import re
from urllib.parse import unquote

_WORDS = ("password", "passwd", "pass", "pwd")

# After the colon of a login comes anything up to the @; after that of a host, a port and a slash.
_LOGIN = r"://[^@/:\[]*:(?!\d*/)([^@]+)@"
_PARAMETER = rf"(?i)[?&;](?:ssl)?(?:{'|'.join(_WORDS)})=([^&;]*)"


def is_password_name(name: str) -> bool:
    """Whether a value under this name is a password."""
    return name.lower().rpartition(".")[2] in _WORDS


def holds_password(address: str) -> bool:
    """Whether an address carries a password, before its host or among its parameters."""
    return bool(_logins(address) or _parameters(unquote(address)))


def passwords_in(address: str) -> list[str]:
    """The passwords that an address carries, as written and as meant."""
    found = [*_logins(address), *_parameters(address), *_parameters(unquote(address))]
    return [*found, *map(unquote, found)]


def _logins(address: str) -> list[str]:
    return re.findall(_LOGIN, address) if "@" in address else []


def _parameters(address: str) -> list[str]:
    return re.findall(_PARAMETER, address) if "=" in address else []
