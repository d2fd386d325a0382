"""What the plan leaves for people: who has to do what, with the command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import BadDefinition, InvalidPath, NotValidated, UntrustedDefinition, WrongData
from ...model import FAILED, HOLD, PENDING, RESUBMIT, RUNNING, Dataset
from ...model.decision.cause import cause_key
from ...model.definitions.calendar import comes_by_clock
from ...store import Store
from ..axis import ranges
from ..words import are, many, ranges_as_arguments, ranges_text
from .nodes import MISSING, OUTSIDE, PAUSED, REFUSED, Graph, RecoveryNode, following, waits_for_the_future
from .ways import ChunkId

_TOLD = 200  # chunks whose reason is looked up


@dataclass(frozen=True, slots=True)
class ByHand:
    """Chunks of one dataset, or of one job, that wait for people: what is the matter, who can help, and how."""

    name: str
    text: str
    who: str
    commands: tuple[str, ...]
    chunks: tuple[ChunkId, ...]
    behind: int  # chunks that wait for them
    because: str = ""


def by_hand(store: Store, found: Graph, healed: list[RecoveryNode]) -> Iterator[ByHand]:
    """Everything that keeps other chunks, or is broken itself, and that only people can put right."""
    # Nothing can be done about what is not expected by now: it is left out, with what waits only for that.
    left_out = {*healed, *waits_for_the_future(found.order())}
    blocked: dict[tuple[str, str, str], list[RecoveryNode]] = {}
    for node in found.nodes.values():
        if node.blocked and node not in left_out and (node.is_behind or node.feeds or node.may_feed):
            where = node.jobid if node.blocked in (PAUSED, UntrustedDefinition.name) else node.failed[0]
            is_told = node.blocked in (WrongData.name, InvalidPath.name, NotValidated.name, REFUSED)
            cause = cause_key(node.detail, node.failed) if is_told else ""
            blocked.setdefault((node.blocked, where, cause), []).append(node)
    for (name, where, cause), nodes in sorted(blocked.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0])):
        because = nodes[0].detail if cause else ""
        yield _told(store, found, name, where, nodes, following(nodes, lambda node: node not in left_out), because)


_ORDER = (
    HOLD,
    PENDING,
    REFUSED,
    OUTSIDE,
    WrongData.name,
    InvalidPath.name,
    NotValidated.name,
    UntrustedDefinition.name,
    BadDefinition.name,
    PAUSED,
    RUNNING,
    MISSING,
)


def _told(
    store: Store, found: Graph, name: str, where: str, nodes: list[RecoveryNode], behind: int, because: str
) -> ByHand:
    catalogue = found.catalogue
    chunks = tuple(node.failed for node in nodes)
    dataids = [node.dataid for node in nodes]
    # A definition that does not load has neither a partition nor an owner; its chunks are there all the same.
    dataset = catalogue.datasets.get(nodes[0].failed[0], Dataset(nodes[0].failed[0]))
    spans = ranges(dataset.partition, dataids)
    these, args, n = ranges_text(spans), ranges_as_arguments(spans), len(nodes)
    jobid = nodes[0].jobid
    owner = dataset.options.get("owner")
    by_clock = f"you (the calendar announces each {dataset.partition.type} only once)"
    deliverer = str(owner) if owner else by_clock if comes_by_clock(dataset) else f"whoever delivers {where}"
    yes = " --yes" * (n > 1)
    match name:
        case "HOLD" | "PENDING":
            who, because = _who_held(store, nodes)
            text = f"{many(n)} of {where} {are(n)} {name}: {these}"
            return ByHand(name, text, who, (f"odf release {where} {args}{yes}",), chunks, behind, because)
        case "REFUSED":
            text = f"{many(n)} of {where} came and {'was' if n == 1 else 'were'} refused: {these}"
            return ByHand(name, text, deliverer, (f"odf ready {where} {args}",), chunks, behind, because)
        case "OUTSIDE":
            status = RESUBMIT if nodes[0].rows and nodes[0].rows[0].status == RESUBMIT else FAILED
            text = f"{many(n)} of {where}, which no job produces, {are(n)} {status}: {these}"
            return ByHand(name, text, deliverer, (f"odf ready {where} {args}",), chunks, behind, because)
        case "MISSING" if jobid:
            text = f"{many(n)} of {where} {'was' if n == 1 else 'were'} never produced: {these}"
            return ByHand(name, text, f"whoever runs {jobid}", (f"odf why {jobid} {dataids[0]}",), chunks, behind)
        case "MISSING":
            text = f"{many(n)} of {where} {'was' if n == 1 else 'were'} never announced: {these}"
            return ByHand(name, text, deliverer, (f"odf ready {where} {args}",), chunks, behind)
        case "PAUSED" if jobid in catalogue.paused:
            pause = catalogue.paused[jobid]
            text = f"{pause}: {many(n)} cannot run"
            return ByHand(name, text, pause.who, (f"odf resume {jobid}",), chunks, behind)
        case "PAUSED":
            pool = catalogue.jobs[jobid].pool
            text = f"pool {pool} has 0 slots: {many(n)} of {jobid} cannot run"
            return ByHand(name, text, f"whoever set pool {pool}", (f"odf pool set {pool} N",), chunks, behind)
        case "RUNNING":
            text = f"{many(n)} of {where} {are(n)} RUNNING, and no run holds {'it' if n == 1 else 'them'}: {these}"
            return ByHand(
                name, text, "you", (f"odf resubmit {where} {args} --force{yes}",), chunks, behind, "typed as SQL"
            )
        case BadDefinition.name:
            text = f"{many(n)} of {where} cannot run, because a definition is broken: {these}"
            told = nodes[0].detail
            return ByHand(name, text, "whoever wrote the definition", ("odf doctor",), chunks, behind, told)
        case UntrustedDefinition.name:
            text = f"{many(n)} of {where} cannot run: the project does not vouch for what the store says"
            told = nodes[0].detail
            return ByHand(
                name, text, "the owner of the project", ("odf apply --dry-run", "odf apply"), chunks, behind, told
            )
    commands = [f"odf why {jobid} {dataids[0]}"]
    if nodes[0].state == REFUSED:
        text = f"every attempt at {many(n)} of {where} is refused: {these}"
        who = f"the owner of {jobid}, or the supplier of what it reads"
        return ByHand(name, text, who, tuple(commands), chunks, behind, because)
    text = f"{many(n)} of {where} {are(n)} {name}, and would be again from the same inputs: {these}"
    if "exactly the content of" in because:
        because += f"; if that is normal there, set repeats = true on dataset {where}, and odf apply"
    # Only the job knows whether it reads more than it declares.
    because += f"; if {jobid} also reads from outside and that was corrected, resubmit it"
    commands.append(f"odf resubmit {where} {args}{yes}")
    return ByHand(name, text, f"the supplier of what {jobid} reads", tuple(commands), chunks, behind, because)


def _who_held(store: Store, nodes: list[RecoveryNode]) -> tuple[str, str]:
    """Who set chunks aside, and why."""
    events = store.views.last_words([node.failed for node in nodes[:_TOLD]])
    who = dict.fromkeys((event.who or "somebody").partition(":")[0] for event in events.values())
    whys = dict.fromkeys(event.why for event in events.values() if event.why)
    return ", ".join(list(who)[:3]) or "somebody", "; ".join(list(whys)[:3])
