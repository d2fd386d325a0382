"""The only room that decrypts: values under a key, the key itself, and keeping both out of everything else.

A value is the token `odf1:` + base64url(memory, iterations, lanes, salt, nonce, ciphertext). The key has no accessor,
and a secret that cannot be read fails with one message, whatever the reason.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import html
import json
import os
import re
import shlex
import stat
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import quote, quote_plus

from opendataflow.errors import BadConfig, BadKey, MissingDependency, UsageError

KEY_VARIABLES = ("PASSKEY", "PASSKEY_FILE", "PASSKEY_COMMAND")
COMMAND_TIMEOUT = 30.0
REDACTED = "[redacted]"
SECRET_FILE_PREFIX = ".odf-secret-"

_TOKEN = "odf1:"
_SALT, _NONCE, _TAG = 16, 12, 16
_SHORT = 4
_PEPPER = os.urandom(16)


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


class Key:
    """A passphrase that cannot be shown, copied or pickled."""

    __slots__ = ("_passphrase",)

    def __init__(self, passphrase: str) -> None:
        if not passphrase:
            raise UsageError("a key cannot be empty", hint=f"Set one of {', '.join(KEY_VARIABLES)}.")
        self._passphrase = _to_bytes(passphrase)

    def __repr__(self) -> str:
        return "Key(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and hmac.compare_digest(self._passphrase, other._passphrase)

    def __hash__(self) -> int:
        # Peppered, so that a hash that reaches a log gives no cheap way to test guesses.
        return hash(hmac.digest(_PEPPER, self._passphrase, "sha256"))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Key is not copied or pickled")


def find_key(environ: Mapping[str, str]) -> Key | None:
    """Return the key from the first of PASSKEY, PASSKEY_FILE and PASSKEY_COMMAND that is set and not empty, or None."""
    if passphrase := environ.get("PASSKEY"):
        return Key(passphrase)
    if path := environ.get("PASSKEY_FILE"):
        return _key_from_bytes(_read_key_file(path), "PASSKEY_FILE")
    if command := environ.get("PASSKEY_COMMAND"):
        return _key_from_bytes(_run_key_command(command, environ), "PASSKEY_COMMAND")
    return None


def require_key(environ: Mapping[str, str], for_what: str) -> Key:
    """Return the key, or refuse with the names of the variables that may hold it."""
    if key := find_key(environ):
        return key
    raise BadKey(
        f"{for_what} needs a key, and none is set",
        hint="Set PASSKEY to it, PASSKEY_FILE to a file that holds it, or PASSKEY_COMMAND to a command that prints it.",
    )


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without anything that leads to the key."""
    return {name: value for name, value in environ.items() if name not in KEY_VARIABLES}


def encrypt(plaintext: str, key: Key, context: str) -> str:
    """Return the token that only this key opens, and only in this context, such as "dataset/orders/encryptedpass"."""
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


class Redactor:
    """Removes secrets, by value and in their usual encodings, from texts and from one stream of bytes.

    A secret shorter than four characters is removed only where it stands as a whole word, since it would otherwise
    shred every text; an empty one is ignored. Overlapping secrets are removed together as one. One Redactor per stream.
    """

    def __init__(self, secrets: Iterable[str | Key]) -> None:
        forms: set[bytes] = set()
        words: set[bytes] = set()
        for secret in secrets:
            raw = secret._passphrase if isinstance(secret, Key) else _to_bytes(secret)
            text = raw.decode("utf-8", "surrogateescape")
            (words if len(text) < _SHORT else forms).update(_encodings(text, raw))
        words -= forms
        branches = {form: re.escape(form) for form in forms}
        branches |= {word: rb"(?<!\w)" + re.escape(word) + rb"(?!\w)" for word in words}
        longest_first = [branches[form] for form in sorted(branches, key=lambda form: (-len(form), form))]
        self._pattern = re.compile(b"|".join(longest_first)) if longest_first else None
        # A word is decided only by the byte after it, so for holding back it is one byte longer.
        self._awaited = sorted([*forms, *(word + b" " for word in words)])
        self._longest = max(map(len, self._awaited), default=1)
        self._first_bytes = {form[0] for form in self._awaited}
        # _data[:_start] is shown already, _data[_start:_done] lies under a mark shown already, the rest is held back.
        self._data, self._start, self._done = b"", 0, 0

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced; leaves the stream alone."""
        # Surrogates that no environment could hold must not make a log line fail.
        errors = "surrogatepass" if re.search("[\ud800-\udc7f\udd00-\udfff]", text) else "surrogateescape"
        data = text.encode("utf-8", errors)
        return self._scan(data, 0, 0, len(data))[0].decode("utf-8", errors)

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be shown so far, holding back only a tail that may turn out to begin a secret."""
        data = self._data + chunk
        hold = self._hold_from(data)
        shown, done = self._scan(data, self._start, self._done, hold)
        # The last byte shown stays as what a whole word looks back at.
        cut = max(hold - 1, 0)
        self._data, self._start, self._done = data[cut:], hold - cut, done - cut
        return shown

    def flush(self) -> bytes:
        """Return what was held back, and begin anew."""
        shown, _ = self._scan(self._data, self._start, self._done, len(self._data))
        self._data, self._start, self._done = b"", 0, 0
        return shown

    def _hold_from(self, data: bytes) -> int:
        """Where the earliest tail begins that more bytes could make a secret."""
        for start in range(max(self._start, len(data) - self._longest + 1), len(data)):
            if data[start] in self._first_bytes:
                tail = data[start:]
                after = bisect_right(self._awaited, tail)
                if after < len(self._awaited) and self._awaited[after].startswith(tail):
                    return start
        return len(data)

    def _scan(self, data: bytes, start: int, done: int, hold: int) -> tuple[bytes, int]:
        """Redact data[done:hold], and tell how far that reaches, which is past hold if a secret does."""
        out: list[bytes] = []
        # Searching on from the next byte, not from the end of the match, finds secrets that overlap.
        while self._pattern and (match := self._pattern.search(data, start)) and match.start() < hold:
            if match.start() >= done:
                out += data[done : match.start()], REDACTED.encode()
            done = max(done, match.end())
            start = match.start() + 1
        out.append(data[done:hold])
        return b"".join(out), max(done, hold)


@contextmanager
def secret_file(directory: str | os.PathLike[str], values: Mapping[str, str]) -> Iterator[Path]:
    """Yield a 0600 file of shell-quoted NAME=value lines that exists only inside the block."""
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise UsageError(f"{name!r} cannot be given in a file", hint="A shell must be able to read name and value.")
    content = _to_bytes("".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()))
    path = Path(directory) / f"{SECRET_FILE_PREFIX}{os.urandom(8).hex()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        # The lock lasts as long as this process, so that sweep_secret_files can tell an orphan from a file in use.
        fcntl.flock(handle, fcntl.LOCK_EX)
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def sweep_secret_files(directory: str | os.PathLike[str]) -> int:
    """Remove the secret files of processes that died before they could, and return how many there were."""
    removed = 0
    for path in Path(directory).glob(f"{SECRET_FILE_PREFIX}*"):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # An empty file holds no secret, and may be one that is being made and not yet locked.
            if os.fstat(handle).st_size:
                path.unlink(missing_ok=True)
                removed += 1
        except BlockingIOError:
            pass
        finally:
            os.close(handle)
    return removed


def _seal(plaintext: str, key: Key, context: str, cost: _Cost, salt: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head, nonce = _HEADER.pack(*cost) + salt, os.urandom(_NONCE)
    sealed = AESGCM(_derive(key, salt, cost)).encrypt(nonce, _to_bytes(plaintext), _bound(head, context))
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
        derived, body = hashlib.sha512(key._passphrase).digest()[:32], _from_base64(token, b"+/") or b""
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
    return _TOKEN.encode() + head + _to_bytes(context)


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
    return kdf.derive(key._passphrase)


def _from_base64(text: str, altchars: bytes) -> bytes | None:
    """Decode base64 with or without padding, only if it is the one way to write these bytes."""
    bare = text.rstrip("=")
    try:
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw, altchars).decode().rstrip("=") == bare else None


def _to_bytes(text: str) -> bytes:
    # What the environment holds need not be UTF-8; Python hands it over as escaped surrogates.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        pass
    raise UsageError("a secret is not valid Unicode", hint="Give it as UTF-8.")


def _key_from_bytes(raw: bytes, source: str) -> Key:
    passphrase = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw
    if not passphrase:
        raise BadConfig(f"{source} gives an empty key", hint="Its first line must be the key.")
    return Key(passphrase.decode("utf-8", "surrogateescape"))


def _read_key_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_mode & (stat.S_IROTH | stat.S_IWOTH):
                return file.read()
    except OSError as error:
        reason = error.strerror
    else:
        raise BadConfig(f"PASSKEY_FILE {path} is open to every user", hint=f"chmod 600 {shlex.quote(path)}")
    # The path is not repeated: whoever mistakes the variable for PASSKEY has put the key there.
    raise BadConfig(f"PASSKEY_FILE cannot be read: {reason}", hint="Set it to the path of the file that holds the key.")


def _run_key_command(command: str, environ: Mapping[str, str]) -> bytes:
    # Neither the command line nor its output is ever repeated: either may hold the key.
    try:
        done = subprocess.run(
            shlex.split(command),
            env=child_environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        problem = f"failed with exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"did not finish in {COMMAND_TIMEOUT:g} s"
    except OSError as error:
        problem = f"cannot be started: {error.strerror}"
    except (ValueError, IndexError):
        problem = "is not a command line"
    raise BadConfig(f"PASSKEY_COMMAND {problem}", hint="It runs without a shell; run it by hand to see what it says.")


def _encodings(text: str, raw: bytes) -> set[bytes]:
    """The value itself and the ways in which programs commonly print it."""
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    quoted |= {re.sub("%..", lambda escape: escape[0].lower(), form) for form in quoted}
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    encoded |= {form.rstrip("=") for form in encoded}
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], html.escape(text)}
    # Three ways of a shell: Python's and POSIX quotes, and the backslashes of printf %q.
    shell = {text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"), re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)}
    return ({raw} | {_to_bytes(form) for form in quoted | encoded | escaped | shell}) - {b""}
