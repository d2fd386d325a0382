"""Encrypts and decrypts tokens.

A token is `odf2:` + base64url(memory, iterations, lanes, salt, nonce, ciphertext), bound to a context: the owner and, on a
second line, the address that the secret is sent to. `odf1:` has no second line. Every failed decryption has the same
message, whatever the reason.
"""

from __future__ import annotations

import json
import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BadKey, MissingDependency
from ..tokens import BOUND, bytes_of, bytes_of_java, is_bound, is_java
from .key import KEY_VARIABLES, Key, passphrase_of, to_bytes

if TYPE_CHECKING:
    from ..model import Dataset

STORE_CONTEXT = "store/password"
# The forms of a token, as messages show them.
TODAY, NO_ADDRESS, NO_TOKEN = "today's form", "bound to no address", "no token"

_SALT, _NONCE = 16, 12


class _Cost(NamedTuple):
    """The Argon2id parameters of one key."""

    memory_kib: int
    iterations: int
    lanes: int

    def affordable(self) -> bool:
        """Whether a stored cost lies between the weakest cost ever written and the cap for untrusted tokens."""
        return all(low <= value <= high for low, value, high in zip(_WEAKEST, self, _CAP, strict=True))


# 128 MiB takes 0.32 s on a 2024 server core; a core three times as fast still spends 0.1 s on a guess.
_COST = _Cost(128 * 1024, 2, 1)
_WEAKEST = _Cost(19 * 1024, 2, 1)
_CAP = _Cost(256 * 1024, 4, 4)
_HEADER, _HEADER_SIZE = ">IBB", 6


def dataset_context(dataset: Dataset) -> str:
    """The context of a dataset's password: the dataset, and the hosts, database and user that it is sent to."""
    from ..model.definitions.address import Address, address_of  # lazy: redaction needs no datasets

    name, address = f"dataset/{dataset.datasetid}/encryptedpass", address_of(dataset)
    return name if address == Address() else f"{name}\n{json.dumps(address)}"


def notify_context(name: str) -> str:
    """The context of a notification address: its name in dataflow.toml."""
    return f"notify/{name}/address"


def lineage_context(url: str) -> str:
    """The context of a lineage server's key: the address that it is sent to."""
    return f"lineage/key\n{json.dumps(url)}"


def encrypt(plaintext: str, key: Key, context: str) -> str:
    """Return a token that only this key decrypts, and only in this context."""
    # One salt per process: all values of a project cost one derivation. The nonce makes every token unique.
    return _seal(plaintext, key, context, _COST, _process_salt())


def decrypt(token: str, key: Key, context: str) -> str:
    """Return the plaintext of an OpenDataFlow or Java token; BadKey, always with the same message, if it cannot be read."""
    plaintext = _open(token.strip(), key, context)
    # Raised outside `except`, so that no inner exception becomes its context.
    if plaintext is None:
        raise BadKey(
            f"the secret {_name_in(context)} cannot be decrypted with this key",
            hint=f"Check {', '.join(KEY_VARIABLES)}. If the key is right, the stored value was changed or belongs "
            "elsewhere, or host, port, database or user changed since: encrypt it again with `odf crypt encrypt`.",
        )
    return plaintext.decode("utf-8", "surrogateescape")


def needs_rekey(token: str) -> bool:
    """Whether this is not a token of the current form and cost."""
    return form_of(token) != TODAY


def form_of(token: str) -> str:
    """The form of a token, as messages show it: the current form, or the weakness of an older one."""
    token = token.strip()
    if is_java(token):
        return "Java's form"  # without a context, and cheap to brute-force
    parts = _parse(token)
    if parts is None:
        return NO_TOKEN
    if not is_bound(token):
        return NO_ADDRESS
    return "an older cost" if any(stored < today for stored, today in zip(parts[0], _COST, strict=True)) else TODAY


def rekey(token: str, old: Key, new: Key, context: str) -> str:
    """Return the same secret in the current form under the new key."""
    return encrypt(decrypt(token, old, context), new, context)


def _seal(plaintext: str, key: Key, context: str, cost: _Cost, salt: bytes) -> str:
    from base64 import urlsafe_b64encode
    from struct import pack

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head, nonce = pack(_HEADER, *cost) + salt, os.urandom(_NONCE)
    sealed = AESGCM(_derive(key, salt, cost)).encrypt(nonce, to_bytes(plaintext), _aad(BOUND, head, context))
    return BOUND + urlsafe_b64encode(head + nonce + sealed).decode().rstrip("=")


def encrypt_as_java(plaintext: str, key: Key) -> str:
    """Return the value that the Java tool would write: without a context, and cheap to brute-force."""
    from base64 import b64encode

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE)
    return b64encode(nonce + AESGCM(_derive_as_java(key)).encrypt(nonce, to_bytes(plaintext), None)).decode()


def _derive_as_java(key: Key) -> bytes:
    import hashlib  # lazy: most processes decrypt nothing

    return hashlib.sha512(passphrase_of(key)).digest()[:32]


def _open(token: str, key: Key, context: str) -> bytes | None:
    """The plaintext; None for a wrong key, context or token, without distinction."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    bound: bytes | None = None
    if parts := _parse(token):
        cost, head, body = parts
        known = context if is_bound(token) else _name_in(context)
        derived, bound = _derive(key, head[_HEADER_SIZE:], cost), _aad(token[: len(BOUND)], head, known)
    elif (raw := bytes_of_java(token)) is not None:
        derived, body = _derive_as_java(key), raw
    else:
        return None
    try:
        return AESGCM(derived).decrypt(body[:_NONCE], body[_NONCE:], bound)
    except InvalidTag:
        return None


def _parse(token: str) -> tuple[_Cost, bytes, bytes] | None:
    """The cost, the head (cost and salt) and the body (nonce and ciphertext) of an OpenDataFlow token; None for other text."""
    raw = bytes_of(token)
    if raw is None:
        return None
    from struct import unpack_from  # lazy: most processes decrypt nothing

    cost, body_at = _Cost(*unpack_from(_HEADER, raw)), _HEADER_SIZE + _SALT
    return (cost, raw[:body_at], raw[body_at:]) if cost.affordable() else None


def _aad(form: str, head: bytes, context: str) -> bytes:
    return form.encode() + head + to_bytes(context)


def _name_in(context: str) -> str:
    return context.partition("\n")[0]


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
