"""The verb lineage: where chunks and datasets come from, and where they go."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..model import check_id
from ..model.definitions.calendar import comes_by_clock
from .app import App, Line, Segment, up_to_date
from .at import at_option, moment_of, remark_lines
from .common import Whole, verb

if TYPE_CHECKING:
    from ..insight.flow_of import Flow, Node, Reach
    from ..insight.flow_picture import Picture
    from ..insight.lineage import VersionLineage, VersionNode

_WIDTH = 20  # children of one node


@verb("lineage")
@click.option("--up", is_flag=True, help="Only what it came from.")
@click.option("--down", is_flag=True, help="Only what came out of it.")
@click.option("--depth", type=Whole(1, 1000), default=10, show_default=True, help="So many jobs far.")
@click.option("--version", type=Whole(1), help="This version of the chunk instead of the current one.")
@click.option("--mermaid", is_flag=True, help="As a Mermaid flowchart, for a page or a ticket.")
@at_option
@click.argument("dataset", required=False)
@click.argument("dataid", required=False)
def lineage_verb(
    app: App,
    dataset: str | None,
    dataid: str | None,
    version: int | None,
    mermaid: bool,
    moment: str | None,
    **reach: Any,
) -> int:
    """Where a chunk or a dataset comes from, and where it goes, through any number of jobs.

    With a DATAID: the versions that really went in and came out, each with its job and run, and whether it is still the
    current one. Without: the datasets and jobs of the flow, with how many chunks have which status. Without a DATASET: the
    whole flow, with the worst that is the matter with each dataset and job.

    \b
      odf lineage
      odf lineage flights_clean
      odf lineage flights_clean 2013-01-05 --up
      odf lineage flights_clean 2013-01-05 --mermaid
      odf lineage flights_clean 2013-01-05 --at yesterday
    """
    if dataset is None:
        return _whole_flow(app, version, moment, mermaid, **reach)
    datasetid = check_id("dataset", dataset)
    at = moment_of(app, moment)
    if dataid is None:
        if version is not None:
            raise UsageError("--version is of a chunk", hint="Name the DATAID too.")
        from ..insight.flow_of import flow
        from ..insight.then import seen_at

        with up_to_date(app):
            around = flow(seen_at(app.store, at), datasetid, _reach(**reach), at)
        app.show(around, lambda: _mermaid_of_flow(around) if mermaid else _flow_lines(around))
        return 0
    from ..insight.lineage import lineage

    check_id("dataid", dataid)
    with up_to_date(app):
        found = lineage(app.store, datasetid, dataid, version, _reach(**reach), at)
    timed = {name for name, each in app.store.catalogue().datasets.items() if comes_by_clock(each)}
    app.show(found, lambda: _mermaid_of_versions(found) if mermaid else _version_lines(found, timed))
    return 0


def _reach(up: bool, down: bool, depth: int) -> Reach:
    from ..insight.flow_of import Reach

    return Reach(up or not down, down or not up, depth)


def _trees(
    root: str, edges: Sequence[tuple[str, str]], titles: tuple[str, str], distances: dict[str, int]
) -> Iterator[tuple[str, str, str, int]]:
    """The tree above a node and the one below: (title, "", "", 0), then (what leads to it, node, mark, left out) for each line."""
    from .tree import branches

    for title, sign in ((titles[0], -1), (titles[1], 1)):
        children: dict[str, list[str]] = {}
        for source, target in edges:
            here, there = (source, target) if sign > 0 else (target, source)
            if distances[here] * sign >= 0 and distances[there] * sign >= 0:
                children.setdefault(here, []).append(there)
        if root in children:
            yield title, "", "", 0
            for branch in branches(root, children, _WIDTH):
                yield branch.lead, branch.id, "  (see above)" if branch.is_repeated else "", branch.left_out


# A chunk ------------------------------------------------------------------------------------------------------------


def _version_lines(lineage: VersionLineage, timed: Container[str]) -> Iterator[Line]:
    nodes = {node.id: node for node in lineage.nodes}
    yield from _as_it_was(lineage)
    yield _version(nodes[lineage.root], "", "", lineage, timed)
    edges = [(edge.source, edge.target) for edge in lineage.edges]
    distances = {node.id: node.distance for node in lineage.nodes}
    for lead, node, mark, left_out in _trees(lineage.root, edges, ("made from", "went into"), distances):
        if left_out:
            yield f"{lead}… and {left_out:,} more"
        else:
            yield _version(nodes[node], lead, mark, lineage, timed) if node else [(lead, "strong")]
    if lineage.nodes[0].version and not edges:
        yield "nothing is known to have gone into it or come out of it"
    yield from remark_lines(lineage.remarks)


def _version(node: VersionNode, lead: str, mark: str, lineage: VersionLineage, timed: Container[str]) -> Line:
    from ..insight.words import when

    maker = "the calendar" if node.datasetid in timed and node.runid is None else node.jobid or ""
    by = [maker, f"run {node.runid}" if node.runid else "", when(node.at, "")]
    line: list[Segment] = [
        (lead, "faint"),
        (f"{node.datasetid} {node.dataid}", "strong"),
        (f" version {node.version}" if node.version else "", ""),
        (f"  {', '.join(filter(None, by))}" if any(by) else "", "faint"),
    ]
    line += [(f"  {text}", style) for text, style in _marks(node, is_past=lineage.at is not None)]
    return [*line, (mark, "faint"), ("  …" if node.has_more and not mark else "", "faint")]


def _marks(node: VersionNode, *, is_past: bool) -> Iterator[Segment]:
    """What is to be said of a version beside who made it: nothing where its chunk is READY and still this version."""
    now = "then" if is_past else "now"
    if node.current is not None and node.version and not node.is_current:
        yield f"version {node.current} {now}", "no"
    if node.is_recalled:
        yield "recalled", "no"
    if node.status != "READY":
        state = node.status or ("not known" if is_past else "not there")
        yield f"{state} {now}", node.status or "no"


def _as_it_was(answer: VersionLineage | Flow) -> Iterator[Line]:
    from ..insight.words import when

    if answer.at is not None:
        yield [(f"as it was at {when(answer.at)}", "faint")]


def _mermaid_of_versions(lineage: VersionLineage) -> Iterator[Line]:
    from ..insight.mermaid import Join, MermaidBox, flowchart

    boxes = []
    for node in lineage.nodes:
        style = "asked" if node.id == lineage.root else "" if node.is_current and node.status == "READY" else "old"
        words = (f"{node.datasetid} {node.dataid}", f"version {node.version}" if node.version else "not published")
        boxes.append(MermaidBox(node.id, words, style=style))
    joins = [
        Join(edge.source, edge.target, " ".join(filter(None, (edge.jobid, f"run {edge.runid}" if edge.runid else ""))))
        for edge in lineage.edges
    ]
    return flowchart(boxes, joins)


# Everything ---------------------------------------------------------------------------------------------------------


def _whole_flow(app: App, version: int | None, moment: str | None, mermaid: bool, **reach: Any) -> int:
    from ..insight.flow_picture import flow_picture

    if version is not None or moment is not None or reach["up"] or reach["down"]:
        raise UsageError("--up, --down, --version and --at are of a dataset", hint="Name the DATASET too.")
    with up_to_date(app):
        picture = flow_picture(app.store)
    app.show(picture, lambda: _mermaid_of_picture(picture) if mermaid else _picture_lines(picture))
    return 0


def _picture_lines(picture: Picture) -> Iterator[Line]:
    for node in picture.nodes:
        name = (f"job {node.name}", "") if node.kind == "job" else (node.name, "strong")
        yield [name, (f"  {node.words}", node.state or "faint")]
    if not picture.nodes:
        yield "no datasets and jobs; declare them in dataflow.toml, then: odf apply"
    elif picture.not_well:
        yield f"{picture.not_well:,} of {picture.total:,} have problems; see: odf recover"


def _mermaid_of_picture(picture: Picture) -> Iterator[Line]:
    from ..insight.mermaid import Join, MermaidBox, flowchart

    boxes = [
        MermaidBox(
            node.id, (node.name, node.words), "round" if node.kind == "job" else "box", "" if node.is_well else "bad"
        )
        for node in picture.nodes
    ]
    return flowchart(boxes, [Join(edge.source, edge.target) for edge in picture.edges])


# A dataset ----------------------------------------------------------------------------------------------------------


def _flow_lines(flow: Flow) -> Iterator[Line]:
    nodes = {node.id: node for node in flow.nodes}
    yield from _as_it_was(flow)
    yield _node(nodes[flow.root], "", "")
    edges = [(edge.source, edge.target) for edge in flow.edges]
    distances = {node.id: node.distance for node in flow.nodes}
    for lead, node, mark, left_out in _trees(flow.root, edges, ("comes from", "goes to"), distances):
        if left_out:
            yield f"{lead}… and {left_out:,} more"
        else:
            yield _node(nodes[node], lead, mark) if node else [(lead, "strong")]
    if not edges:
        yield "no job reads or writes it"
    yield from remark_lines(flow.remarks)


def _node(node: Node, lead: str, mark: str) -> Line:
    name = (f"job {node.name}", "") if node.kind == "job" else (node.name, "strong")
    line: list[Segment] = [(lead, "faint"), name]
    line += [(f"  {text}", status) for status, text in _counts(node)]
    if node.kind == "dataset" and not node.counts:
        line.append(("  no chunks", "faint"))
    return [*line, (mark, "faint"), ("  …" if node.has_more and not mark else "", "faint")]


def _counts(node: Node) -> Iterator[tuple[str, str]]:
    for status, n in node.counts.items():
        yield status, f"{status} {'≥' if node.at_least and status == 'READY' else ''}{n:,}"


def _mermaid_of_flow(flow: Flow) -> Iterator[Line]:
    from ..insight.mermaid import Join, MermaidBox, flowchart

    boxes = []
    for node in flow.nodes:
        lines = (node.name, *(text for _, text in _counts(node)))
        style = "asked" if node.id == flow.root else "bad" if node.counts.get("FAILED") else ""
        boxes.append(MermaidBox(node.id, lines, "round" if node.kind == "job" else "box", style))
    joins = [Join(edge.source, edge.target, edge.mapping if edge.mapping != "identity" else "") for edge in flow.edges]
    return flowchart(boxes, joins)
