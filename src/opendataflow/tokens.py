"""Tokens: the forms that an encrypted value can have, by which it is told from a password in plain text."""

from __future__ import annotations

BOUND = "odf2:"  # to a dataset and its address
UNBOUND = "odf1:"  # to a dataset only

_SMALLEST = 6 + 16 + 12 + 16  # cost, salt, nonce and tag around nothing
_SMALLEST_OF_JAVA = 12 + 16


def is_token(text: str) -> bool:
    """Whether this has the form of an encrypted value, ours or the Java tool's; what has none may be a password."""
    token = text.strip()
    return bytes_of(token) is not None or bytes_of_java(token) is not None


def is_bound(token: str) -> bool:
    """Whether a token opens only for the address that it was made for."""
    return token.strip().startswith(BOUND)


def is_java(token: str) -> bool:
    """Whether this has the form the Java tool writes: base64 of a 12-byte IV and AES-256-GCM ciphertext."""
    return bytes_of_java(token.strip()) is not None


def bytes_of(token: str) -> bytes | None:
    """What our own token holds, if it is one."""
    if not token.startswith((BOUND, UNBOUND)):
        return None
    raw = _from_base64(token[len(BOUND) :], b"-_")
    return raw if raw is not None and len(raw) >= _SMALLEST else None


def bytes_of_java(token: str) -> bytes | None:
    """What the Java tool's value holds, if it is one."""
    raw = _from_base64(token, b"+/")
    return raw if raw is not None and len(raw) >= _SMALLEST_OF_JAVA else None


def _from_base64(text: str, altchars: bytes) -> bytes | None:
    """Decode base64 with or without padding, only if it is the one way to write these bytes."""
    import base64  # here, since most processes see no token
    import binascii

    bare = text.rstrip("=")
    try:
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw, altchars).decode().rstrip("=") == bare else None
