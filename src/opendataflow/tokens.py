"""Recognises encrypted values, and finds and redacts plaintext secrets by their names and forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

BOUND = "odf2:"  # to a dataset and its address
UNBOUND = "odf1:"  # to a dataset only

_SMALLEST = 6 + 16 + 12 + 16  # cost, salt, nonce and tag of an empty plaintext
_SMALLEST_OF_JAVA = 12 + 16


def is_token(text: str) -> bool:
    """Whether a text has the form of an encrypted value of OpenDataFlow or the Java tool; other text may be a password."""
    token = text.strip()
    return bytes_of(token) is not None or bytes_of_java(token) is not None


def is_bound(token: str) -> bool:
    """Whether a token is bound to the address that it was encrypted for."""
    return token.strip().startswith(BOUND)


def is_java(token: str) -> bool:
    """Whether a text has the form that the Java tool writes: base64 of a 12-byte IV and AES-256-GCM ciphertext."""
    return bytes_of_java(token.strip()) is not None


def bytes_of(token: str) -> bytes | None:
    """The decoded bytes of an OpenDataFlow token; None for other text."""
    if not token.startswith((BOUND, UNBOUND)):
        return None
    raw = _from_base64(token[len(BOUND) :], b"-_")
    return raw if raw is not None and len(raw) >= _SMALLEST else None


def bytes_of_java(token: str) -> bytes | None:
    """The decoded bytes of a Java token; None for other text."""
    raw = _from_base64(token, b"+/")
    return raw if raw is not None and len(raw) >= _SMALLEST_OF_JAVA else None


def _from_base64(text: str, altchars: bytes) -> bytes | None:
    """Decode canonical base64, with or without padding."""
    import base64  # lazy: most processes see no token
    import binascii

    bare = text.rstrip("=")
    try:
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw, altchars).decode().rstrip("=") == bare else None


# Secrets in plain text ------------------------------------------------------------------------------------------------

# Names whose values are secret, in dataflow.toml, addresses, Spark settings, pages and logs. A valid pattern in Java and
# Python.
SECRET_NAMES = (
    "(?i)secret(?!ar)|passw|passphrase|passkey|pwd|token(?!s|i[sz])|(?<!application.)credential|signature"
    "|((^|[^a-z])(authorization|pass|pw|sig)|(db|key|pg|store|user)pass)$"
    "|(access|account|api|auth|client|encryption|master|private|sas|shared|signing|storage)[._-]?key|fs[.]azure[.]sas"
)
# Names of values that only point to a secret or describe it.
_NO_SECRETS = (
    "(?i)(file|path|dir|command|url|uri|provider|class|type|id|name|regex|enabled|hint|columns?|count|limit|length|policy"
    "|ttl|expir[a-z_]{1,5})$"
)
# Logins in an address, in a hostname, and in addresses of Oracle. After the colon of a login comes anything up to the
# first or the last @, since a password may contain @; after the colon of a host, a port and a slash. A time of day is not
# a login. Text before the host of a web address is a token. Repetitions are bounded against texts made to backtrack.
_LOGINS = (
    r"(?i)https?://([^@/:?#\s\[\"'<>]{1,1000}+)@",
    r"://[^@/:\[\s]*:(?!\d*(?:,[\w.:-]*)?[/?])([^@\s]{1,1000}+)@",
    r"://[^@/:\[\s]*:(?!\d*(?:,[\w.:-]*)?[/?])([^\s\"'<>]{1,1000})@",
    r"\Apostgres(?:ql)?://[^@/:]*:(?!\d*(?:,[\w.:-]*)?/)([^@]{1,1000}+)@",
    r"\A(?!jdbc:|mailto:|(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d\b)[^@/:\s]*:(?!//)([^@\s]{1,1000}+)@",
    r"(?i)oracle:\w{1,100}+:[^@/\s]{0,100}+/([^@\s]{1,1000}+)@",
    r"(?:\A|(?<=[\s\"'=]))[\w$#]{1,128}+/([^@/\s]{1,1000}+)@(?://|[\w.-]{1,253}+:\d{4,5}+[:/])",
)
# name=value as in addresses, 'name': 'value' as in JSON and Python, and HTTP headers. An id or a location may begin with
# token=, the folder of a partition.
_BEFORE = r"(?<=[?&;,(\s\"'])"
_QUOTED = r"[\"']([\w.%-]++)[\"']\s*+:\s*+(?=[\"'])"
_NAMED = rf"(?:{_BEFORE}|\A(?=(?i:[\w.%-]{{0,100}}?(?:passw|pwd|secret|key))))([\w.%-]++)\s*+=\s*+|{_QUOTED}"
_HEADER = r"(?i)\bauthorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:apikey|basic|bearer|token)\s{1,9}([\w.~+/=-]{1,9999})"
# Further forms in text that is neither an id nor a location: name: value, a token on its own, and Oracle's
# user/password@ALIAS, which only its capitals distinguish from a path.
_NAMED_IN_TEXT = rf"(?:{_BEFORE}|\A)([\w.%-]++)\s*+(?:=|:(?!//))\s*+|{_QUOTED}"
_LOGINS_IN_TEXT = (
    r"\b(?:Bearer|BEARER)\s{1,9}(?!(?i:tokens?|auth\w*)\b)([\w.~+/=-]{1,9999})",
    r"(?:\A|(?<=[\s\"'=]))[\w$#]{1,128}+/([^@/\s]{1,1000}+)@[A-Z][A-Z\d_$#]{0,127}+(?![\w./@:-])",
)
# Tokens of GitHub, GitLab, Slack and Databricks, JSON Web Tokens and private keys: secret wherever they stand.
_TOKENS = (
    r"(?<![A-Za-z\d])(gh[oprsu]_[A-Za-z\d]{36,255}+|github_pat_\w{50,255}+|glpat-[\w-]{20,255}+|dapi[\da-f]{32}+"
    r"|xox[abeoprs]-[A-Za-z\d-]{10,255}+|eyJ[\w-]{8,4000}+[.]eyJ[\w-]{8,4000}+[.][\w-]{8,1000}+)",
    r"-----BEGIN (?:[A-Z\d]{1,20} ){0,3}PRIVATE KEY-----([^-]{1,9999}+)",
)
_IDS_AND_LOCATIONS = r"\A(?:options[.])?(?:location|roots|script|folder|schema|description|[a-z]*id)\Z"
# A user name followed by its password; two numbers are a user and a group.
_USER_NAMES = r"(?i)(?:\A|[.])user\Z|user_?name\Z"
_USER = r"(?!\d+:\d+\Z)[^\s:/@\\]+[:/]([^\s@]+)\Z"
_NAMES_OF_COLUMNS = r"\A(?:checks|reads|writes|(?:options[.])?copy)\Z"  # their keys are column or dataset names
_VALUE = r"\{([^{}]*;[^{}]*+)\}|'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|([^&;\s)]*[^&;\s)'\"}\],])"
# Values that are never secret, under any name.
_NO_VALUE = r"(?i)\d{0,3}|true|false|yes|no|on|off|null|none|env|file|\[redacted\]?"
REDACTED = "[redacted]"
NOT_UNDERSTOOD = "postgresql://…"
# The parts of an address that messages show, if the whole address parses; libpq reads a login up to the first @.
_POSTGRES = r"(postgres(?:ql)?://)(?:([\w.%+~-]*)(?::[^@/]*)?@)?((?:[\w.%~,:-]|\[[\da-fA-F:.%]+\])*)(/[\w.%~+-]*)?(?:\?([^?#]*))?"
_SHOWN_PARAMETERS = "schema host hostaddr port dbname user sslmode target_session_attrs connect_timeout require_auth"
_PLAIN = r"[\w.,~+/@-]*"  # text that cannot be part of a login or of another address
_PLAIN_HOST = rf"{_PLAIN}|[\da-fA-F:.,]*"


def is_secret_name(name: str) -> bool:
    """Whether values under this name are secret."""
    return bool(re.search(SECRET_NAMES, name)) and not re.search(_NO_SECRETS, name)


def secrets_in(text: str, name: str = "") -> list[str]:
    """The plaintext secrets in an address or another text, as written and percent-decoded."""
    found = [text[begin:end] for begin, end in _spans(text, name)]
    if (decoded := unquote(text)) != text:
        found += [decoded[begin:end] for begin, end in _spans(decoded, name)]
    return list(dict.fromkeys(each for one in found for each in (one, unquote(one)) if each))


def holds_secret(text: str, name: str = "") -> bool:
    """Whether a text contains a plaintext secret, or is a secret by its own name."""
    return (is_secret_name(name) and _may_be_secret(text)) or bool(secrets_in(text, name))


def without_secrets(text: str, name: str = "") -> str:
    """The text with each plaintext secret replaced; text without a name may be an id or a location, or begin with one."""
    shown, done = "", 0
    for begin, end in sorted(_spans(text, name)):
        if begin >= done:
            shown += text[done:begin] + REDACTED
        done = max(done, end)
    return shown + text[done:]


def redacted_reason(text: str) -> str:
    """Free text of a person or a job, such as a reason, with each plaintext secret replaced."""
    return without_secrets(text, "why")


def secret_in(facts: Any, *path: str) -> tuple[str, ...]:
    """The path of the first plaintext secret in a definition, at any depth; empty if there is none."""
    name = ".".join(path)
    if isinstance(facts, str):
        return path if holds_secret(facts, name) else ()
    if re.search(_NAMES_OF_COLUMNS, name):
        return ()
    if isinstance(facts, Mapping):
        return next(filter(None, (secret_in(inner, *path, str(key)) for key, inner in facts.items())), ())
    return next(filter(None, (secret_in(inner, *path) for inner in facts)), ()) if _is_list(facts) else ()


def shown_facts(value: Any, name: str = "") -> Any:
    """A definition with plaintext secrets, and texts under secret names, redacted.

    `name` is the dotted path of the enclosing tables: dotted keys of TOML are tables.
    """
    if isinstance(value, str):
        if is_token(value):
            return value
        return REDACTED if is_secret_name(name) and _may_be_secret(value) else without_secrets(value, name)
    if re.search(_NAMES_OF_COLUMNS, name):
        return shown_texts(value)
    if isinstance(value, Mapping):
        return {key: shown_facts(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
    return [shown_facts(inner, name) for inner in value] if _is_list(value) else value


def shown_texts(value: Any, redact: Callable[[str], str] = without_secrets) -> Any:
    """Plain data with each text redacted, including keys, which may be column or dataset names that look secret."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): shown_texts(inner, redact) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown_texts(inner, redact) for inner in value]
    return value


def shown_address(address: str) -> str:
    """The address of a store, reduced to known parts without secrets; a placeholder for an address that cannot be parsed."""
    if address.startswith("sqlite:///"):
        return without_secrets(address)
    parts = re.fullmatch(_POSTGRES, address)
    if parts is None:
        scheme = re.match(r"jdbc:[a-z]{1,20}:/{0,2}|[a-z]{1,10}://", address)
        return NOT_UNDERSTOOD if address.startswith("postgres") else f"{scheme[0]}…" if scheme else "this"
    scheme_, user, hosts, database, parameters = parts.groups("")
    names = re.sub(r"\[.*?\]", "", hosts)
    if not all(re.fullmatch(_PLAIN, unquote(each)) for each in (user, database, re.sub(r":\d*(?=,|\Z)", "", names))):
        return NOT_UNDERSTOOD
    kept = [each for each in parameters.split("&") if each.partition("=")[0] in _SHOWN_PARAMETERS.split()]
    if not all(re.fullmatch(_PLAIN_HOST, unquote(each.partition("=")[2])) for each in kept):
        return NOT_UNDERSTOOD
    login = f"{user}@" if user else ""
    return f"{scheme_}{login}{hosts}{database}{'?' if kept else ''}{'&'.join(kept)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _may_be_secret(value: str) -> bool:
    return not is_token(value) and not re.fullmatch(_NO_VALUE, value)


def _spans(text: str, name: str = "") -> list[tuple[int, int]]:
    """The spans of the plaintext secrets in a text; none in an encrypted value, whose characters may spell a name."""
    is_text = bool(name) and not re.search(_IDS_AND_LOCATIONS, name)
    has_names = "=" in text or ":" in text
    forms = (*_TOKENS, *_LOGINS * ("@" in text), *_LOGINS_IN_TEXT * is_text, *[_HEADER] * has_names)
    spans = [found.span(1) for form in forms for found in re.finditer(form, text)]
    if re.search(_USER_NAMES, name) and (login := re.match(_USER, text)):
        spans.append(login.span(1))
    values, done = re.compile(_VALUE, re.DOTALL), 0
    for found in re.finditer(_NAMED_IN_TEXT if is_text else _NAMED, text) if has_names else ():
        if found.start() >= done and is_secret_name(unquote(found[1] or found[2])):
            value = values.match(text, found.end())
            if value and value.lastindex and _may_be_secret(value[value.lastindex]):
                spans.append(value.span(value.lastindex))
                done = value.end()
    return [] if spans and is_token(text) else spans
