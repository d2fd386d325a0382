"""Tokens: what tells an encrypted value from a secret in plain text: its form, and the names and forms that secrets have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

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


# Secrets in plain text ------------------------------------------------------------------------------------------------

# The names under which values are secret: for dataflow.toml, addresses, Spark's settings, pages and logs; Java and Python
# read it alike.
SECRET_NAMES = (
    "(?i)secret|passw|passphrase|passkey|pwd|token|credential|signature|(^|[^a-z])(pass|sig)$"
    "|(access|account|api|auth|client|encryption|master|private|sas|shared|storage)[._-]?key|fs[.]azure[.]sas"
)
# What only leads to a secret, or says how it is found.
_NO_SECRETS = "(?i)(file|path|dir|command|url|uri|provider|class|type|id|name|regex|enabled|hint|columns?|ttl|expiry)$"
# Where a login stands in an address, in a hostname, and in an address of Oracle. After the colon of a login comes anything
# up to the @; after that of a host, a port and a slash. Bounded, since rows may hold texts that are made to take long.
_LOGINS = (
    r"://[^@/:\[\s]*:(?!\d*(?:,[\w.:-]*)?/)([^@\s]{1,1000})@",
    r"\A(?!jdbc:)[^@/:\s]*:(?!//)([^@\s]{1,1000})@",
    r"(?i)oracle:\w+:[^@/\s]*/([^@\s]{1,1000})@",
)
_PARAMETER = r"(?:[?&;,(\s]|\A(?=[^/?]*\Z))([\w.%-]+)\s*=\s*('[^']*'|[^&;\s)]*)"
REDACTED = "[redacted]"
NOT_UNDERSTOOD = "postgresql://…"
# What of an address is shown, where all of it is understood; libpq reads a login up to the first @.
_POSTGRES = r"(postgres(?:ql)?://)(?:([\w.%+~-]*)(?::[^@/]*)?@)?((?:[\w.%~,:-]|\[[\da-fA-F:.%]+\])*)(/[\w.%~+-]*)?(?:\?([^?#]*))?"
_SHOWN_PARAMETERS = "schema host hostaddr port dbname user sslmode target_session_attrs connect_timeout require_auth"


def is_secret_name(name: str) -> bool:
    """Whether a text under this name is a secret."""
    return bool(re.search(SECRET_NAMES, name)) and not re.search(_NO_SECRETS, name)


def secrets_in(text: str) -> list[str]:
    """The secrets in plain text that an address, or another text, carries: as written and as meant."""
    found = [text[begin:end] for begin, end in _spans(text)]
    if (meant := unquote(text)) != text:
        found += [meant[begin:end] for begin, end in _spans(meant)]
    return list(dict.fromkeys(each for one in found for each in (one, one.strip("'"), unquote(one)) if each))


def holds_secret(text: str) -> bool:
    """Whether a text carries a secret in plain text, in its login or under the name of one."""
    return bool(secrets_in(text))


def without_secrets(text: str) -> str:
    """The text with each secret in plain text replaced."""
    shown, done = "", 0
    for begin, end in sorted(_spans(text)):
        if begin >= done:
            shown += text[done:begin] + REDACTED
        done = max(done, end)
    return shown + text[done:]


def shown_facts(value: Any, name: str = "") -> Any:
    """Facts as anybody may see them: no text with a secret in plain text, and none under the name of one."""
    if isinstance(value, Mapping):
        return {key: shown_facts(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown_facts(inner, name) for inner in value]
    if not isinstance(value, str) or not value or is_token(value):
        return value
    return REDACTED if is_secret_name(name) else without_secrets(value)


def shown_address(address: str) -> str:
    """The address of a store as anybody may see it: the parts that are no secret, and nothing that is not understood."""
    if address.startswith("sqlite:///"):
        return without_secrets(address)
    parts = re.fullmatch(_POSTGRES, address)
    if parts is None or ":" in unquote(parts[2] or ""):
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.:-]{0,30}:/{0,3}", address)
        return NOT_UNDERSTOOD if address.startswith("postgres") else f"{scheme[0]}…" if scheme else "this"
    scheme_, user, hosts, database, parameters = parts.groups("")
    if any(port and not port.isdigit() for port in re.findall(r":([^,:\]]*)(?=,|\Z)", re.sub(r"\[.*?\]", "", hosts))):
        return NOT_UNDERSTOOD
    kept = [each for each in parameters.split("&") if each.partition("=")[0] in _SHOWN_PARAMETERS.split()]
    login = f"{user}@" if user else ""
    return f"{scheme_}{login}{hosts}{database}{'?' if kept else ''}{'&'.join(kept)}"


def _spans(text: str) -> list[tuple[int, int]]:
    """Where the secrets in plain text lie."""
    logins = [found.span(1) for form in _LOGINS for found in re.finditer(form, text)] if "@" in text else []
    named = (
        [found for found in re.finditer(_PARAMETER, text) if is_secret_name(unquote(found[1]))] if "=" in text else []
    )
    return [*logins, *(found.span(2) for found in named if found[2] and not is_token(found[2]))]
