"""Reads the table [notify]: the notification targets and rules. The store cannot change them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import BadDefinition
from ..model import check_id
from ..model.definitions.hours import WeekWindow, parse_window
from ..model.definitions.ids import shown
from ..model.duration import seconds
from ..model.selector import Selector
from .section import TABLE, Section, Shape, nearest

FAILED, RECOVERED, LATE, REFUSED, RECALLED = "failed", "recovered", "late", "refused", "recalled"
OCCASIONS = (FAILED, RECOVERED, LATE, REFUSED, RECALLED)
OPEN_SCHEMES = ("json", "form", "xml")  # plaintext addresses with these schemes are allowed for this machine
DEFAULT_REMIND = 3600.0

_RULE = "rule"
_TABLES = Shape(lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value), "tables")
_is_loopback = re.compile(r"127(?:\.\d{1,3}){3}|localhost|::1").fullmatch


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """A notification target: an encrypted address, an address on this machine, or a program of the project."""

    name: str
    encrypted: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    command: str = ""

    @property
    def needs_key(self) -> bool:
        """Whether the target's address is encrypted."""
        return bool(self.encrypted)


@dataclass(frozen=True, slots=True)
class NotifyRule:
    """A notification rule: occasions, targets, chunks, quiet hours, reminder interval and environments."""

    on: tuple[str, ...]
    to: tuple[str, ...]
    selector: Selector = field(default_factory=Selector)
    quiet: tuple[WeekWindow, ...] = ()
    remind: float | None = None
    environments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notify:
    """The notification targets and rules."""

    targets: Mapping[str, NotifyTarget]
    rules: tuple[NotifyRule, ...]

    def in_environment(self, name: str) -> tuple[NotifyRule, ...]:
        """The rules that apply to an environment."""
        return tuple(rule for rule in self.rules if not rule.environments or name in rule.environments)


def read_notify(section: Section, folder: Path, environments: tuple[str, ...]) -> Notify:
    """The notification targets and rules of a project file."""
    section.refuse_passwords("encrypted", skip=(_RULE,))
    targets = {}
    for name in section.data:
        if name != _RULE:
            if not isinstance(section.data[name], dict):
                raise section.wrong(name, "expected a table", "Write it under a name: [notify.oncall]")
            targets[name] = _target(section.inner(name), folder)
    tables = section.get(_RULE, _TABLES, [])
    rules = [
        _rule(Section(section.file, (*section.path, f"{_RULE} {number}"), table), targets, environments)
        for number, table in enumerate(tables, 1)
    ]
    return Notify(targets, tuple(rules))


def _target(section: Section, folder: Path) -> NotifyTarget:
    with section.at():
        check_id("notify", section.name)
    section.only(("encrypted", "url", "command"))
    ways = [key for key in ("encrypted", "url", "command") if key in section]
    if len(ways) != 1:
        raise section.wrong("", "expected one of encrypted, url and command", "Keep one of the three.")
    encrypted = section.token("encrypted", f"--for-notify {section.name}")
    url, command = section.text("url"), section.text("command")
    if "url" in section:
        _check_open(section, url)
    if "command" in section:
        _check_command(section, command, folder)
    return NotifyTarget(section.name, encrypted, url, command)


def _check_open(section: Section, url: str) -> None:
    """Refuse a plaintext address unless it is on this machine: most messenger addresses contain a secret."""
    try:
        parts = urlsplit(url)
        is_open = (
            parts.scheme in OPEN_SCHEMES
            and _is_loopback(parts.hostname or "") is not None
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        is_open = False
    if not is_open:  # the message omits the address: it may be a secret
        schemes = ", ".join(f"{scheme}://" for scheme in OPEN_SCHEMES)
        raise section.wrong(
            "url",
            f"an address in plain text may only be one of {schemes} on 127.0.0.1, without a user and options",
            f"Encrypt it, and declare the output as encrypted: odf crypt encrypt --for-notify {section.name}",
        )


def _check_command(section: Section, command: str, folder: Path) -> None:
    path = os.path.normpath(os.path.join(folder, command))
    if not command or os.path.isabs(command) or not path.startswith(os.path.join(folder, "")):
        raise section.wrong(
            "command",
            f"{shown(command)} is not a file in the project",
            "Write the path of a program in the project's folder, like bin/page.sh; it reads the message from stdin.",
        )


def _rule(section: Section, targets: Mapping[str, NotifyTarget], environments: tuple[str, ...]) -> NotifyRule:
    section.only(("on", "to", "for", "quiet", "remind", "environments"))
    on, to = section.texts("on"), section.texts("to")
    for key, words in (("on", on), ("to", to)):
        if not words:
            raise section.wrong(key, "the key is missing", "A rule requires on and to.")
    for key, words, known in (
        ("on", on, OCCASIONS),
        ("to", to, tuple(targets)),
        ("environments", section.texts("environments"), environments),
    ):
        for word in words:
            if word not in known:
                raise section.wrong(key, f"there is no {shown(word)}", nearest(word, known))
    with section.at("for"):
        selector = Selector.from_data(section.get("for", TABLE, {}))
    with section.at("quiet"):
        quiet = tuple(_window(text) for text in section.texts("quiet"))
    with section.at("remind"):
        remind = seconds(section.data["remind"]) if "remind" in section else None
    return NotifyRule(on, to, selector, quiet, remind, section.texts("environments"))


def _window(text: str) -> WeekWindow:
    try:
        return parse_window(f"{text} -> 0")
    except BadDefinition:
        raise BadDefinition(
            f"{shown(text)} is not a range of hours", hint="Write for instance 22:00-06:00 or Sat-Sun 00:00-24:00."
        ) from None
