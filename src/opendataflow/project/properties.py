"""Reads dataflow.properties, the store configuration of the Java original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from ..tokens import is_secret_name
from .environments import check_store_url, refuse_password
from .locations import store_address
from .section import Section
from .settings import DEFAULT_ENVIRONMENT, Environment

# Parameters that the JDBC driver and libpq share; others are ignored.
_PARAMETERS = ("sslmode", "sslrootcert", "sslcert", "sslkey")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_escape = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_pair = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL).fullmatch
_jdbc = re.compile(r"jdbc:postgresql:(?://([^/?]*)/?)?([^?]*)(?:\?(.*))?").fullmatch


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a Java properties file."""
    pairs = {}
    for line in _logical_lines(text):
        pair = _pair(line)
        if pair and pair[1]:
            pairs[_unescaped(pair[1])] = _unescaped(pair[2])
    return pairs


def read_properties(file: Path, text: str) -> Environment:
    """The environment with the store that the file names."""
    data = parse_properties(text)
    section = Section(file.name, (), dict(data))
    for key in data:
        if is_secret_name(key):
            hint = "Encrypt it with `odf crypt encrypt` and write: encrypted=…"
            raise section.wrong(key, "this is a password in plain text", hint)
    if not data.get("url"):
        raise section.wrong(
            "url", "the key is missing", "Write for instance: url=jdbc:postgresql://localhost:5432/dataflow"
        )
    if data.get("schema", "dataflow") != "dataflow":
        raise section.wrong("schema", "the tables live in schema dataflow", "Write: schema=dataflow")
    with section.at("url"):
        refuse_password(data["url"])
    url = _address(section, section.text("url"), section.text("user"))
    return Environment(
        DEFAULT_ENVIRONMENT,
        (str(file.parent),),
        (),
        store_address(url, file.parent),
        section.token("encrypted", "--for-store"),
        is_declared=False,
    )


def _address(section: Section, url: str, user: str) -> str:
    if not url.startswith("jdbc:"):
        with section.at("url"):
            return check_store_url(url)
    parts = _jdbc(url)
    if url.startswith("jdbc:h2:"):
        hint = "Use SQLite, which also needs no server: url=sqlite:///dataflow.db"
        raise section.wrong("url", "an H2 database cannot be the store", hint)
    if not parts:
        raise section.wrong(
            "url", "this is not the address of a PostgreSQL database", "Write: jdbc:postgresql://host:5432/database"
        )
    host, database = parts[1] or "localhost", parts[2].strip("/")
    parameters = dict(parse_qsl(parts[3] or ""))
    if parameters.get("currentSchema", "dataflow") != "dataflow":
        raise section.wrong("url", "the tables live in schema dataflow", "Leave currentSchema out.")
    if parameters.get("ssl", "").lower() == "true":
        parameters.setdefault("sslmode", "verify-full")
    user = user or parameters.get("user", "")
    kept = urlencode({key: parameters[key] for key in _PARAMETERS if key in parameters})
    login = f"{quote(user, safe='')}@" if user else ""
    return f"postgresql://{login}{host}/{database or quote(user, safe='')}{'?' + kept if kept else ''}"


def _logical_lines(text: str) -> Iterator[str]:
    whole = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not whole and line.startswith(("#", "!")):
            continue
        # A line ends with an unescaped backslash if it continues.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        if whole + line:
            yield whole + line
        whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    return _escape.sub(
        lambda escape: chr(int(escape[1], 16)) if escape[1] else _ESCAPES.get(escape[2], escape[2] or ""), text
    )
