"""The overview: what needs somebody, the matrix to zoom into, what runs, and the pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from ...errors import OdfError
from ...insight.heat import STATUSES, Heat, MatrixFilter, heat
from ...insight.incidents import incidents
from ...insight.now import now
from ...insight.pools import PoolUsage, pools
from ...insight.stale import stale_now
from ...model import TYPES
from ...store import Store
from ..grid import grid
from ..kept import CachedLook
from ..problems import status_of
from ..show import page
from ..site import site_of

router = APIRouter()

_LISTED = 8  # incidents
_MOST_LISTED = 100  # on demand
_POOLS = 24
_RUNS = 12
_COLUMNS = 40
_WEIGHT = 150_000  # characters that the tables of a page may take
_ROWS = 60  # datasets, where they are light enough
_LEAST_ROWS = 5
_LONGEST = 128  # of a word in the address
_FIELDS = {"dataset": "dataset", "job": "job", "status": "status", "since": "from", "until": "to", "text": "text"}


class Breadcrumb(NamedTuple):
    """One step of the way from everything to the period that is looked at."""

    name: str
    address: str


@dataclass(frozen=True)
class Matrix:
    """The matrix as it is shown, and the ways out of it."""

    seen: Heat | None
    tables: str
    problem: OdfError | None
    age: float
    again: float


@router.get("/", response_class=HTMLResponse)
def overview_page(request: Request) -> Response:
    """Everything at a glance."""
    site, given = site_of(request), request.query_params
    wanted = MatrixFilter(**{name: given.get(word, "").strip()[:_LONGEST] for name, word in _FIELDS.items()})
    start = _number(given.get("start", ""))
    with site.kept.look(site) as look:
        found = look.answer("incidents", incidents)
        runs = look.answer("now", now)
        uses = look.answer("pools", pools)
        is_defined = look.answer("defined", _is_defined)
        matrix = _matrix(look, wanted, start)
    is_long = given.get("incidents") == "all"
    listed = found.value[: _MOST_LISTED if is_long else _LISTED]
    return page(
        request,
        "overview.html",
        title="Overview",
        status_code=status_of(matrix.problem) if matrix.problem else 200,
        wanted=wanted,
        fields=_fields(wanted),
        statuses=STATUSES,
        incidents=listed,
        more_incidents=len(found.value) - len(listed),
        matrix=matrix,
        steps=_steps(wanted),
        beside=_beside(wanted),
        next_page=_address(wanted, start=start + matrix.seen.shown) if matrix.seen and matrix.seen.more else "",
        first_page=_address(wanted) if start else "",
        now=runs.value,
        runs=runs.value.runs[:_RUNS],
        pools=_first_pools(uses.value),
        more_pools=max(len(uses.value) - _POOLS, 0),
        again=min((each for each in (found.again, runs.again, uses.again, matrix.again) if each), default=0.0),
        has_definitions=is_defined.value,
        all_incidents="" if is_long else _address(wanted, start=start or None, incidents="all"),
    )


def _is_defined(store: Store) -> bool:
    catalogue = store.catalogue()
    return len(catalogue.datasets) > 1 or bool(catalogue.jobs or catalogue.broken)


def _first_pools(uses: list[PoolUsage]) -> list[PoolUsage]:
    """All pools; of very many, those that somebody waits for."""
    if len(uses) > _POOLS:
        uses = sorted(uses, key=lambda use: (-use.waiting, -use.taken, use.poolid))
    return uses[:_POOLS]


def _number(word: str) -> int:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 8 else 0


# The matrix ---------------------------------------------------------------------------------------------------------


def _matrix(look: CachedLook, wanted: MatrixFilter, start: int) -> Matrix:
    marks = look.answer("stale", stale_now)

    def find(store: Store) -> tuple[Heat, str]:
        rows = _ROWS
        while True:
            seen = heat(store, wanted, start=start, rows=rows, width=_COLUMNS, stale=marks.value)
            tables = grid(seen, lambda first, last: _zoomed(wanted, first, last))
            if len(tables) <= _WEIGHT or rows <= _LEAST_ROWS:
                return seen, tables
            # Names and filters may be long, and stand in every cell.
            rows = max(min(rows - 1, seen.shown * _WEIGHT // len(tables)), _LEAST_ROWS)

    try:
        answer = look.answer(("matrix", wanted, start), find)
    except OdfError as problem:
        return Matrix(None, "", problem, 0.0, 0.0)
    seen, tables = answer.value
    return Matrix(seen, tables, None, max(answer.seconds, marks.seconds), answer.again)


# Addresses ----------------------------------------------------------------------------------------------------------


def _fields(wanted: MatrixFilter) -> dict[str, str]:
    """The filters as the address names them."""
    given: Mapping[str, str] = asdict(wanted)
    return {_FIELDS[name]: value for name, value in given.items() if value}


def _address(wanted: MatrixFilter, **more: object) -> str:
    query = _fields(wanted) | {name: str(value) for name, value in more.items() if value is not None}
    return "/?" + urlencode(query) if query else "/"


def _zoomed(wanted: MatrixFilter, first: str, last: str) -> str:
    fields = {name: value for name, value in _fields(wanted).items() if name not in ("from", "to")}
    fields |= {"from": first, "to": last} if first else {}
    return "?" + urlencode(fields) if fields else "/"


def _steps(wanted: MatrixFilter) -> list[Breadcrumb]:
    """The way back: everything, the year, the month, the day."""
    if not (wanted.since or wanted.until):
        return []
    steps = [Breadcrumb("Everything", _zoomed(wanted, "", ""))]
    period = wanted.since if wanted.since == wanted.until else ""
    if period and _type_of(period):
        steps += [
            Breadcrumb(period[:width], _zoomed(wanted, period[:width], period[:width]))
            for width in (4, 7, 10)
            if width < len(period)
        ]
    here = period or f"{wanted.since or '…'} to {wanted.until or '…'}"
    return [*steps, Breadcrumb(here, "")]


def _beside(wanted: MatrixFilter) -> list[Breadcrumb]:
    """The period before and the one after, where one is looked at."""
    kind = _type_of(wanted.since) if wanted.since and wanted.since == wanted.until else None
    if kind is None:
        return []
    number = TYPES[kind].parse(wanted.since)
    near = [TYPES[kind].format(n) for n in (number - 1, number + 1) if TYPES[kind].first <= n <= TYPES[kind].last]
    return [Breadcrumb(each, _zoomed(wanted, each, each)) for each in near]


def _type_of(period: str) -> str | None:
    for name, kind in TYPES.items():
        if kind.is_time and kind.width == len(period):
            try:
                kind.parse(period)
            except (ValueError, LookupError):
                return None
            return name
    return None
