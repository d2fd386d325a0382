"""Access: who comes in, as whom, and what they may do. From another machine that takes a token or a known proxy."""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import BadConfig
from ..model.listen_address import ListenAddress
from ..model.printable import clean
from ..project.settings import Web
from ..project.web import ADMIN, LONGEST_USER, OPERATOR, ROLES, VIEWER

__all__ = ["ADMIN", "OPERATOR", "VIEWER", "Access", "Arrival", "Visitor", "check_address"]

_MOST_SESSIONS = 10_000
_IDLE = 12 * 3600.0  # seconds after which an unused session is over
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user of a page: the name, the role, and the token that the user's forms carry."""

    name: str
    role: str
    csrf: str = ""  # empty for a program that shows a token with every request

    def may(self, role: str) -> bool:
        """Whether he may do what this role may."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)

    @property
    def who(self) -> str:
        """As the history names him: his name, and the machine and process of the console."""
        return f"{self.name}@{os.uname().nodename}:{os.getpid()}"


NOBODY = Visitor("", "")


class Arrival(NamedTuple):
    """What a request shows of itself: its headers, the address that it came from, and its cookies."""

    headers: Mapping[str, str]
    address: str
    cookies: Mapping[str, str]
    peer: str = ""  # who sent it: the address, and on this machine the user; a cookie alone is no proof, and empty fits no session


@dataclass
class _Session:
    visitor: Visitor
    seen: float
    peer: str
    note: str = ""


class _Sessions:
    """Sessions by their secret ids: only so many, and none that was unused for long."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, peer: str) -> Visitor | None:
        with self._lock:
            session = self._of(key, peer)
            if session is None:
                return None
            if time.monotonic() - session.seen > _IDLE:
                del self._known[key]
                return None
            session.seen = time.monotonic()
            self._known.move_to_end(key)
            return session.visitor

    def _of(self, key: str, peer: str) -> _Session | None:
        """The session with this key, for its own peer: browsers show a cookie to other servers of the host as well."""
        session = self._known.get(key)
        return session if session is not None and peer and session.peer == peer else None

    def begin(self, name: str, role: str, peer: str) -> tuple[str, Visitor]:
        key, visitor = secrets.token_urlsafe(32), Visitor(name, role, secrets.token_urlsafe(32))
        with self._lock:
            self._known[key] = _Session(visitor, time.monotonic(), peer)
            while len(self._known) > _MOST_SESSIONS:
                self._known.popitem(last=False)
        return key, visitor

    def note(self, key: str, peer: str, text: str) -> str:
        """Leave a note for the next page; returns the one that was there."""
        with self._lock:
            session = self._of(key, peer)
            if session is None:
                return ""
            before, session.note = session.note, text
            return before

    def end(self, key: str, peer: str) -> None:
        with self._lock:
            if self._of(key, peer) is not None:
                del self._known[key]


class Access:
    """The rules of one console: tokens, a proxy that names users, or only this machine."""

    def __init__(self, web: Web, address: ListenAddress, *, user: str, read_only: bool = False) -> None:
        self._web, self._user, self._read_only = web, user, read_only
        self.address = address
        self.cookie = f"odf_session_{address.port}"  # browsers share cookies between the ports of a host
        self._sessions = _Sessions()
        self._strangers = _Sessions()  # however many they are, no user who logged in loses a session to them

    @property
    def needs_login(self) -> bool:
        """Whether a visitor without a session has to show a token."""
        return bool(self._web.tokens)

    @property
    def proxy_header(self) -> str:
        """The header in which the proxy names its user, in small letters; empty without a proxy."""
        return self._web.proxy.header.lower() if self._web.proxy is not None else ""

    @property
    def is_read_only(self) -> bool:
        """Whether all changes are refused."""
        return self._read_only

    def is_known_host(self, host: str) -> bool:
        """Whether a request may name this host: a page elsewhere that points its own name at us may not."""
        name, _, port = host.lower().rpartition(":") if not host.endswith("]") else (host.lower(), "", "")
        if not name:
            name, port = port, ""
        if name in self._web.hosts or host.lower() in self._web.hosts:
            return True
        allowed = {*_LOOPBACK_HOSTS, self._named(self.address.host)}
        return name in allowed and (port == str(self.address.port) or (not port and self.address.port == 80))

    @staticmethod
    def _named(host: str) -> str:
        return f"[{host}]" if ":" in host else host.lower()

    def visitor(self, arrival: Arrival) -> tuple[Visitor, str]:
        """Who this is, and the key of a session that was begun for him now, if one was."""
        bearer = arrival.headers.get("authorization", "")
        if bearer:
            found = self._by_token(bearer.removeprefix("Bearer ").strip())
            return (Visitor(*found) if found else NOBODY), ""
        named = self._by_proxy(arrival)
        key = arrival.cookies.get(self.cookie, "")
        known = self._sessions.get(key, arrival.peer) or self._strangers.get(key, arrival.peer)
        if named is not None:
            if known is not None and (known.name, known.role) == named:
                return known, ""
            return self._begun(*named, arrival)
        if known is not None:
            return (known if not self._behind_proxy_only else NOBODY), ""
        if self._web.knows_visitors:
            return NOBODY, ""
        return self._begun(self._user, self._capped(ADMIN), arrival)

    @property
    def _behind_proxy_only(self) -> bool:
        return self._web.proxy is not None and not self._web.tokens

    def _begun(self, name: str, role: str, arrival: Arrival) -> tuple[Visitor, str]:
        key, visitor = self._sessions.begin(name, role, arrival.peer)
        return visitor, key

    def _capped(self, role: str) -> str:
        return VIEWER if self._read_only and role else role

    def anonymous(self, arrival: Arrival) -> tuple[str, Visitor]:
        """A session of a visitor who has not logged in yet: the login form needs a token of its own too."""
        return self._strangers.begin("", "", arrival.peer)

    def _by_token(self, token: str) -> tuple[str, str] | None:
        known = self._web.token_of(token)
        return (known.name, self._capped(known.role)) if known is not None else None

    def log_in(self, token: str, arrival: Arrival) -> tuple[str, Visitor] | None:
        """A new session for the user of this token."""
        found = self._by_token(token)
        return self._sessions.begin(*found, arrival.peer) if found else None

    def log_out(self, arrival: Arrival) -> None:
        """End the session that a request shows."""
        self._sessions.end(arrival.cookies.get(self.cookie, ""), arrival.peer)

    def leave_note(self, arrival: Arrival, text: str) -> None:
        """Say something on the next page that this session sees."""
        self._sessions.note(arrival.cookies.get(self.cookie, ""), arrival.peer, text)

    def take_note(self, arrival: Arrival) -> str:
        """What was left to say to this session, once."""
        return self._sessions.note(arrival.cookies.get(self.cookie, ""), arrival.peer, "")

    def is_csrf(self, visitor: Visitor, given: str) -> bool:
        """Whether a form carries the token of its visitor's session."""
        return bool(visitor.csrf) and hmac.compare_digest(visitor.csrf.encode(), given.encode())

    def _by_proxy(self, arrival: Arrival) -> tuple[str, str] | None:
        proxy = self._web.proxy
        if proxy is None or not proxy.is_from(arrival.address):
            return None
        name = _as_written(arrival.headers.get(proxy.header.lower(), "")).strip(" \t")
        # A name that would have to be changed to be shown is refused: changed, it could be that of another user.
        if not name or len(name) > LONGEST_USER or not name.isprintable() or clean(name) != name:
            return None
        return name, self._capped(proxy.role_of(name))


def _as_written(header: str) -> str:
    """The text of a header: most proxies write UTF-8, which HTTP itself reads byte by byte."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def check_address(address: ListenAddress, web: Web) -> None:
    """BAD_CONFIG when other machines could reach the console without a login."""
    if address.is_loopback or web.knows_visitors:
        return
    raise BadConfig(
        f"the console would listen at {address}, where other machines reach it, and [web] in dataflow.toml declares no user",
        hint="Make a token, and declare what is printed: odf serve --new-token NAME",
    )
