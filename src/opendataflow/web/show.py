"""Show: templates, and the words, signs and addresses that they share. Whatever others wrote is shown as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from ..insight.words import count, duration, exit_text, gist, said, took
from ..model.printable import visible
from ..tokens import without_secrets
from .access import Visitor
from .site import Site, site_of

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = Path(__file__).parent
STATIC = _HERE / "static"

# One sign for each status, so that it can be read without colours; the same as in the terminal.
SIGNS = {
    "READY": "●",
    "RUNNING": "▶",
    "FAILED": "✗",
    "RESUBMIT": "↻",
    "HOLD": "‖",
    "PENDING": "P",
    "REFUSED": "⊘",
    "MISSING": "○",
    "STALE": "≠",
    "LATE": "◷",
    "WARNED": "!",
    "BROKEN": "⊗",
    "PAUSED": "■",
    "RECALLED": "⊘",
}


class Addresses:
    """Where each page is: no template writes an address by hand."""

    def chunk(self, datasetid: str, dataid: str, **query: object) -> str:
        """The page of a chunk."""
        return _address("chunk", datasetid, dataid, **query)

    def dataset(self, datasetid: str, **query: object) -> str:
        """The page of a dataset."""
        return _address("dataset", datasetid, **query)

    def job(self, jobid: str, **query: object) -> str:
        """The page of a job."""
        return _address("job", jobid, **query)

    def run(self, runid: int, **query: object) -> str:
        """The page of a run."""
        return _address("run", runid, **query)

    def log(self, runid: int, **query: object) -> str:
        """The log of a run as a file of text."""
        return _address("run", runid, "log", **query)

    def flow(self, *chunk: str, **query: object) -> str:
        """The flow, or the versions around one chunk."""
        return _address("flow", *chunk, **query)

    def act(self, verb: str, **query: object) -> str:
        """The page of a verb: first a look at what would happen."""
        return _address("act", verb, **query)

    def overview(self, **query: object) -> str:
        """The overview."""
        return _address(**query)

    def recovery(self, **query: object) -> str:
        """The plan of a recovery."""
        return _address("recovery", **query)

    def timeline(self, **query: object) -> str:
        """The runs of a period, as bars."""
        return _address("timeline", **query)

    def history(self, **query: object) -> str:
        """What happened."""
        return _address("history", **query)

    def report(self, **query: object) -> str:
        """The report of a period."""
        return _address("report", **query)

    def report_file(self, **query: object) -> str:
        """The same as a file."""
        return _address("report", "file", **query)

    def chaos(self, **query: object) -> str:
        """The last report of odf chaos."""
        return _address("chaos", **query)

    def search(self, **query: object) -> str:
        """What a text finds."""
        return _address("search", **query)

    def static(self, name: str) -> str:
        """A style sheet, a script or a picture; its address changes with its contents."""
        return f"/static/{name}?v={_digest(name)}"


def _address(*parts: object, **query: object) -> str:
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {name: value for name, value in query.items() if value not in (None, "", (), [])}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def local(address: str) -> str:
    """An address of this console, or the overview where it leads elsewhere."""
    is_ours = address.startswith("/") and not address.startswith("//")
    return address if is_ours and address.isprintable() and "\\" not in address else "/"


@cache
def _digest(name: str) -> str:
    return sha256((STATIC / name).read_bytes()).hexdigest()[:12]


def page(
    request: Request, template: str, *, title: str, topics: tuple[str, ...] = (), status_code: int = 200, **facts: Any
) -> HTMLResponse:
    """A page of the console: a template with what it shows. The topics say which changes make it look again."""
    site, arrival = site_of(request), request.state.arrival
    facts |= {
        "note": "" if "x-odf-live" in arrival.headers else site.access.take_note(arrival),
        "title": title,
        "topics": topics,
        "visitor": request.state.visitor,
        "path": request.url.path,
        "query": dict(request.query_params),
    }
    return HTMLResponse(render(site, template, facts), status_code)


def render(site: Site, template: str, facts: Mapping[str, Any]) -> str:
    """A template with its facts, without any secret that this process knows."""
    visitor: Visitor = facts["visitor"]
    shared = {"about": site.about, "zone": site.zone, "is_read_only": site.access.is_read_only}
    shared["pending"] = site.pending
    shared["can_leave"] = site.access.needs_login
    shared["first_step"] = "odf apply" if site.project.is_toml else "odf init"
    shared |= {"topics": (), "query": {}, "note": ""}
    return site.redact(_templates().get_template(template).render(shared | dict(facts) | {"may": visitor.may}))


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= _FILTERS
    made.globals |= {
        "url": Addresses(),
        "signs": SIGNS,
        "version": version("opendataflow"),
        "this_moment": lambda: datetime.now(UTC),
        "utc": UTC,
    }
    return made


def _shown(value: Any) -> Any:
    """What others wrote, without secrets and with what could steer a terminal made visible; markup of our own stays as it is."""
    return without_secrets(visible(value)) if type(value) is str else "" if value is None else value


def _when(moment: datetime | None, zone: Any, form: str = "%Y-%m-%d %H:%M:%S %Z") -> str:
    return moment.astimezone(zone).strftime(form) if moment else ""


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if seconds < 0:
        return f"in {duration(-seconds)}"
    return f"{duration(seconds)} ago" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days ago"


def _lasted(since: datetime) -> str:
    return duration((datetime.now(UTC) - since).total_seconds())


def _from_now(seconds: float) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


def _size(n: float | None) -> str:
    if n is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:,.1f} TB"


_FILTERS: dict[str, Callable[..., Any]] = {
    "when": _when,
    "ago": _ago,
    "lasted": _lasted,
    "from_now": _from_now,
    "duration": lambda seconds: "" if seconds is None else duration(seconds),
    "took": took,
    "exit": exit_text,
    "gist": gist,
    "said": said,
    "count": count,
    "number": lambda n: "" if n is None else f"{n:,}",
    "sign": lambda status: SIGNS.get(status or "", "·"),
    "size": _size,
}
