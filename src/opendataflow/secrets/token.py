"""Tokens: a value under a key.

A value is the token `odf1:` + base64url(memory, iterations, lanes, salt, nonce, ciphertext). A secret that cannot be
read fails with one message, whatever the reason.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import struct
from functools import cache, lru_cache
from typing import NamedTuple

from ..errors import BadKey, MissingDependency
from .key import KEY_VARIABLES, Key, passphrase_of, to_bytes

STORE_CONTEXT = "store/password"

_TOKEN = "odf1:"
_SALT, _NONCE, _TAG = 16, 12, 16


class _Cost(NamedTuple):
    """What Argon2id is asked to spend on one key."""

    memory_kib: int
    iterations: int
    lanes: int

    def affordable(self) -> bool:
        """Whether a stored cost lies between the weakest we ever wrote and the most a stranger may make us spend."""
        return all(low <= value <= high for low, value, high in zip(_WEAKEST, self, _CAP, strict=True))


# 128 MiB takes 0.32 s on a 2024 server core, so a core three times as fast still pays 0.1 s for a guess.
_COST = _Cost(128 * 1024, 2, 1)
_WEAKEST = _Cost(19 * 1024, 2, 1)
_CAP = _Cost(256 * 1024, 4, 4)
_HEADER = struct.Struct(">IBB")


def dataset_context(datasetid: str) -> str:
    """What the password of a dataset is bound to."""
    return f"dataset/{datasetid}/encryptedpass"


def encrypt(plaintext: str, key: Key, context: str) -> str:
    """Return the token that only this key opens, and only in this context."""
    # One salt per process: a project's values then cost one derivation, and the nonce still makes every token its own.
    return _seal(plaintext, key, context, _COST, _process_salt())


def decrypt(token: str, key: Key, context: str) -> str:
    """Return the plaintext of our own or the Java tool's token, or refuse with one message whatever is wrong."""
    plaintext = _open(token.strip(), key, context)
    # Raised out here, not in an `except`: no lower exception travels along as the context.
    if plaintext is None:
        raise BadKey(
            f"the secret {context} cannot be decrypted with this key",
            hint=f"Check {', '.join(KEY_VARIABLES)}. If the key is right, the stored value was changed or belongs "
            "elsewhere: encrypt it again with `odf crypt encrypt`.",
        )
    return plaintext.decode("utf-8", "surrogateescape")


def is_java(token: str) -> bool:
    """Whether this has the form the Java tool writes: base64 of a 12-byte IV and AES-256-GCM ciphertext."""
    raw = _from_base64(token.strip(), b"+/")
    return raw is not None and len(raw) >= _NONCE + _TAG


def needs_rekey(token: str) -> bool:
    """Whether this is anything but a token of today's form and cost."""
    parts = _parse(token.strip())
    return parts is None or any(stored < today for stored, today in zip(parts[0], _COST, strict=True))


def rekey(token: str, old: Key, new: Key, context: str) -> str:
    """Return the same secret in today's form under the new key."""
    return encrypt(decrypt(token, old, context), new, context)


def _seal(plaintext: str, key: Key, context: str, cost: _Cost, salt: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head, nonce = _HEADER.pack(*cost) + salt, os.urandom(_NONCE)
    sealed = AESGCM(_derive(key, salt, cost)).encrypt(nonce, to_bytes(plaintext), _bound(head, context))
    return _TOKEN + base64.urlsafe_b64encode(head + nonce + sealed).decode().rstrip("=")


def _open(token: str, key: Key, context: str) -> bytes | None:
    """The plaintext, or None for a wrong key, context or token, which nobody is to tell apart."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    bound: bytes | None = None
    if parts := _parse(token):
        cost, head, body = parts
        derived, bound = _derive(key, head[_HEADER.size :], cost), _bound(head, context)
    elif is_java(token):
        derived, body = hashlib.sha512(passphrase_of(key)).digest()[:32], _from_base64(token, b"+/") or b""
    else:
        return None
    try:
        return AESGCM(derived).decrypt(body[:_NONCE], body[_NONCE:], bound)
    except InvalidTag:
        return None


def _parse(token: str) -> tuple[_Cost, bytes, bytes] | None:
    """The cost, the head (cost and salt) and the body (nonce and ciphertext) of our own token, if it is one."""
    raw = _from_base64(token.removeprefix(_TOKEN), b"-_") if token.startswith(_TOKEN) else None
    if raw is None or len(raw) < _HEADER.size + _SALT + _NONCE + _TAG:
        return None
    cost, body_at = _Cost(*_HEADER.unpack_from(raw)), _HEADER.size + _SALT
    return (cost, raw[:body_at], raw[body_at:]) if cost.affordable() else None


def _bound(head: bytes, context: str) -> bytes:
    return _TOKEN.encode() + head + to_bytes(context)


@cache
def _process_salt() -> bytes:
    return os.urandom(_SALT)


@lru_cache(maxsize=1024)
def _derive(key: Key, salt: bytes, cost: _Cost) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    try:
        kdf = Argon2id(salt=salt, length=32, iterations=cost.iterations, lanes=cost.lanes, memory_cost=cost.memory_kib)
    except UnsupportedAlgorithm:
        hint = "Install the cryptography wheel from PyPI, or build it on OpenSSL 3.2 or newer."
        raise MissingDependency("the installed cryptography has no Argon2id", hint=hint) from None
    return kdf.derive(passphrase_of(key))


def _from_base64(text: str, altchars: bytes) -> bytes | None:
    """Decode base64 with or without padding, only if it is the one way to write these bytes."""
    bare = text.rstrip("=")
    try:
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw, altchars).decode().rstrip("=") == bare else None
