"""The page Flow: datasets and jobs from left to right, and the versions that a chunk came from and went into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight.drawing import MOST_BOXES, Box, Drawing, drawing
from ...insight.flow_of import Reach
from ...insight.flow_picture import NOT_WELL, STATES, FlowNode, NodeChunks, Picture, chunks_of_node, flow_picture
from ...insight.lineage import VersionLineage, VersionNode, lineage
from ...store import Store
from ..show import SIGNS, Addresses, page
from ..site import site_of

router = APIRouter()
url = Addresses()

_DEPTHS = (1, 2, 3, 5, 10)
_MOST_ROWS = 200  # of the table of a map
_NEIGHBOURS = 4  # that a row names
_ROW = Markup(
    '<tr><td><a class="id" href="{link}">{name}</a></td><td>{kind}</td><td><span class="status status-{state}">'
    '<span class="sign" aria-hidden="true">{sign}</span>{words}</span></td><td>{before}</td><td>{after}</td></tr>'
)
_Depth = Annotated[int, Query(ge=1, le=100)]
_Word = Annotated[str, Query(max_length=200)]


@router.get("/flow")
def flow_page(
    request: Request,
    node: _Word = "",
    around: _Word = "",
    depth: _Depth = 2,
    not_well: bool = False,
    part: Annotated[int | None, Query(ge=1, le=10_000)] = None,
) -> Response:
    """Every dataset and job with the worst that is the matter with it; beside them the chunks of one."""
    site, asked = site_of(request), _Asked(node.strip(), around.strip(), depth, not_well, part)
    with site.kept.look(site) as look:
        answer = look.answer(("flow", asked), lambda store: _seen(store, asked))
    seen = answer.value
    return page(
        request,
        "flow.html",
        title=seen.chosen.node.name if seen.chosen else "Flow",
        seen=seen,
        picture=seen.picture,
        drawn=seen.drawn,
        chosen=seen.chosen,
        around=(seen.picture.around or "").removeprefix("dataset ").replace("job ", "job:"),
        part_link=_link_of_part(asked),
        close=url.flow(**asked.query, part=part),
        depths=_DEPTHS,
        depth=depth,
        not_well=not_well,
        again=answer.again,
    )


class _Asked(NamedTuple):
    """What an address asks for."""

    node: str
    around: str
    depth: int
    not_well: bool
    part: int | None

    @property
    def query(self) -> dict[str, Any]:
        """What stays in the address when another node is chosen."""
        depth = self.depth if self.around else None
        return {"around": self.around, "depth": depth, "not_well": self.not_well or None}


class _Seen(NamedTuple):
    """What there is to show, drawn and in rows."""

    picture: Picture
    nodes: int
    drawn: Drawing
    named: int
    svg: Markup
    chosen: NodeChunks | None
    states: list[tuple[str | None, int]]
    rows: Markup
    more_rows: int


def _seen(store: Store, asked: _Asked) -> _Seen:
    picture = flow_picture(store, around=asked.around or None, depth=asked.depth, only_not_well=asked.not_well)
    chosen = chunks_of_node(store, asked.node) if asked.node else None
    drawn = _drawn(picture, asked, chosen)
    shown = {*drawn.shown} or {each.id for each in picture.nodes if not each.is_well}
    rows = [each for each in picture.nodes if each.id in shown]
    states = Counter(each.state for each in picture.nodes)
    return _Seen(
        replace(picture, nodes=(), edges=()),  # many of these are kept: only what is shown
        len(picture.nodes),
        replace(drawn, svg="", shown=()),
        len(drawn.shown),
        Markup(drawn.svg),  # made of escaped parts
        chosen,
        [(state, states[state]) for state in (*STATES, None) if states[state]],
        _rows(rows[:_MOST_ROWS] if drawn.is_map else rows, picture, asked),
        max(len(rows) - _MOST_ROWS, 0) if drawn.is_map else 0,
    )


def _link_of_part(asked: _Asked) -> str:
    return url.flow(**asked.query) + ("&" if any(asked.query.values()) else "?") + "part="


def _drawn(picture: Picture, asked: _Asked, chosen: NodeChunks | None) -> Drawing:
    is_map = len(picture.nodes) > MOST_BOXES and asked.part is None
    boxes = [
        Box(
            node.id,
            node.kind,
            node.state or "NONE",
            SIGNS.get(node.state or "", "·"),
            node.name,
            node.words + " …" * node.has_more,
            f"{node.kind} {node.name}: {node.words}" + "; it goes on" * node.has_more,
            chosen is not None and node.id == chosen.node.id,
        )
        for node in picture.nodes
    ]
    return drawing(
        boxes,
        [(arrow.source, arrow.target) for arrow in picture.edges],
        "Datasets and jobs, from left to right",
        lambda node: _link(node, asked, asked.part, is_map=is_map),
        part=asked.part,
        link_of_part=_link_of_part(asked),
        not_well=frozenset(node.id for node in picture.nodes if node.state in NOT_WELL),
    )


def _link(node: str, asked: _Asked, part: int | None, *, is_map: bool = False) -> str:
    """Where the chunks of a node are shown beside the graph; from a map, with what is around it."""
    if is_map:
        return url.flow(around=node, depth=2, node=node)
    return url.flow(**asked.query, part=part, node=node)


def _rows(nodes: Iterable[FlowNode], picture: Picture, asked: _Asked) -> Markup:
    """The same graph as rows of a table, for whoever cannot see it; kept as text, since there may be hundreds."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for arrow in picture.edges:
        before.setdefault(arrow.target, []).append(arrow.source.partition(" ")[2])
        after.setdefault(arrow.source, []).append(arrow.target.partition(" ")[2])
    return Markup("\n").join(
        _ROW.format(
            link=_link(node.id, asked, None),
            name=node.name,
            kind=node.kind,
            state=node.state or "NONE",
            sign=SIGNS.get(node.state or "", "·"),
            words=node.words,
            before=_named(before.get(node.id, ())),
            after=_named(after.get(node.id, ())),
        )
        for node in nodes
    )


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NEIGHBOURS:,} more" if len(every) > _NEIGHBOURS else ""
    return ", ".join(every[:_NEIGHBOURS]) + more


# Versions -----------------------------------------------------------------------------------------------------------


@router.get("/flow/{datasetid}/{dataid}")
def versions_page(
    request: Request,
    datasetid: str,
    dataid: str,
    version: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    depth: _Depth = 10,
    part: Annotated[int | None, Query(ge=1, le=10_000)] = None,
) -> Response:
    """The versions that really went into a chunk and came out of it."""
    with site_of(request).reading() as store:
        found = lineage(store, datasetid, dataid, version, Reach(depth=depth))
    query = {"version": version, "depth": depth if depth != 10 else None}
    link = url.flow(datasetid, dataid, **query)
    links = {each.id: url.flow(each.datasetid, each.dataid, version=each.version or None) for each in found.nodes}
    drawn = drawing(
        [_box(each, found) for each in found.nodes],
        [(edge.source, edge.target) for edge in found.edges],
        f"Versions that went into {datasetid} {dataid}, and that came out of it",
        lambda node: links[node],
        part=part,
        link_of_part=link + ("&" if any(query.values()) else "?") + "part=",
        not_well=frozenset(each.id for each in found.nodes if each.id == found.root or each.is_recalled),
    )
    shown = {*drawn.shown}
    return page(
        request,
        "flow_versions.html",
        title=f"Versions of {datasetid} {dataid}",
        topics=(f"chunk:{datasetid}/{dataid}", *(f"chunk:{n.datasetid}/{n.dataid}" for n in found.nodes[1:100])),
        found=found,
        root=next(each for each in found.nodes if each.id == found.root),
        drawn=drawn,
        named=len(drawn.shown),
        part_link=link + ("&" if any(query.values()) else "?") + "part=",
        svg=Markup(drawn.svg),  # made of escaped parts
        rows=[each for each in found.nodes if not drawn.shown or each.id in shown][:_MOST_ROWS],
        more_rows=max(len(shown or found.nodes) - _MOST_ROWS, 0),
        depths=_DEPTHS,
        depth=depth,
    )


def _box(each: VersionNode, found: VersionLineage) -> Box:
    state = version_state(each)
    words = f"version {each.version}" if each.version else "not published"
    by = " ".join(filter(None, (each.jobid, f"run {each.runid}" if each.runid else "")))
    now = "" if each.is_current or not each.version else f", now {each.current or 'none'}"
    return Box(
        each.id,
        "version",
        state,
        SIGNS.get(state, "·"),
        each.datasetid,
        f"{each.dataid} v{each.version}{now}{' …' * each.has_more}",
        f"{each.datasetid} {each.dataid} {words}{now}: {state_words(each)}" + (f", by {by}" if by else ""),
        each.id == found.root,
    )


def version_state(each: VersionNode) -> str:
    """The state of a version: recalled, that of its chunk while it stands, or none when it is an older one."""
    if each.is_recalled:
        return "RECALLED"
    return (each.status or "NONE") if each.is_current else "NONE"


def state_words(each: VersionNode) -> str:
    """The same in words."""
    if each.is_recalled:
        return "recalled"
    return (each.status or "not there") if each.is_current else "not the current version"
