"""The page of a run, and its log: a part as JSON for whoever follows it, and all of it as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ...errors import UnknownRun
from ...insight.run_log import LogSearch, before_in_log, last_of_log, part_of_log, pieces_of_log, search_log
from ...insight.run_sheet import run_sheet
from ...model.printable import visible
from ..show import page
from ..site import Site, site_of

router = APIRouter()

_PIECE = 65536  # characters that leave together
_MOST_NUMBER = 2**62  # of a run, and of a position in a log


@router.get("/run/{runid}")
def run_page(request: Request, runid: str, q: str = "", at: str = "") -> Response:
    """Why a run was let in, what it was given, how it went, and what it printed."""
    site, number = site_of(request), _number(runid)
    with site.reading() as store:
        sheet = run_sheet(store, site.project, number)
        position = _position(at)
        before = before_in_log(store, site.project, sheet.run, position) if q.strip() and position else ""
        if position is None:
            log = last_of_log(store, site.project, sheet.run)
        else:
            log = part_of_log(store, site.project, sheet.run, position)
    found = None
    if q.strip():
        with site.searching() as store:
            found = search_log(store, site.project, sheet.run, q.strip())
    return page(
        request,
        "run.html",
        title=f"run {number}",
        topics=(f"run:{number}",),
        sheet=sheet,
        run=sheet.run,
        log=replace(log, text=site.redact(log.text)),
        found=_marked(site, found) if found else None,
        searched=found,
        before=site.redact(before),
        is_end=position is None,
    )


@router.get("/run/{runid}/log")
def run_log_file(request: Request, runid: str) -> Response:
    """All of a run's log as a file of text; terminal escapes in it are shown as text."""
    site, number = site_of(request), _number(runid)
    with site.reading() as store:
        pieces = _together(site, pieces_of_log(store, site.project, store.views.run(number)))
        first = next(pieces, "")  # what is wrong with it is told before anything is sent
    return StreamingResponse(
        _after(first, pieces),
        media_type="text/plain",
        headers={"content-disposition": f'attachment; filename="run-{number}.log"'},
    )


@router.get("/run/{runid}/log/part")
def run_log_part(request: Request, runid: str, at: str = "0") -> Response:
    """The next part of a run's log, for whoever follows it."""
    site, number = site_of(request), _number(runid)
    with site.reading() as store:
        part = part_of_log(store, site.project, store.views.run(number), _position(at) or 0)
    return JSONResponse(asdict(replace(part, text=site.redact(part.text), problem=site.redact(part.problem))))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > _MOST_NUMBER:
        raise UnknownRun("there is no such run", hint="A run has a number; the page of its job lists them.")
    return int(text)


def _position(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _together(site: Site, pieces: Iterator[str]) -> Iterator[str]:
    """Lines in larger pieces, each without secrets: a line is never cut in two."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield site.redact(visible("".join(waiting)))
            waiting, size = [], 0
    if waiting:
        yield site.redact(visible("".join(waiting)))


def _after(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _marked(site: Site, found: LogSearch) -> list[dict[str, object]]:
    """The lines that were found, each cut into before, found and after."""
    lines: list[dict[str, object]] = []
    for line in found.lines:
        text = site.redact(line.text)
        at = text.lower().find(found.wanted.lower())
        end = at + len(found.wanted) if at >= 0 else 0
        cut = (text[: max(at, 0)], text[max(at, 0) : end], text[end:])
        lines.append({"line": line.line, "position": line.position, "before": cut[0], "hit": cut[1], "after": cut[2]})
    return lines
