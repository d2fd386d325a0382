"""Steering: what a person says about chunks, by verbs whose transitions are a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import BadTransition, Locked, WrongData
from ..model import (
    FAILED,
    HOLD,
    IN,
    OUT,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    Catalogue,
    Manifest,
    check_dataid,
    sort_key,
)
from . import candidates
from .backend import Row, Transaction
from .claims import remove
from .folding import end_lost_run
from .records import Announced, compact, event, manifest_row

OUTSIDE = "outside"
GONE = "GONE"
BACK = "BACK"
_BATCH = 10_000

# verb → (status now → status then). None is "no row"; BACK is what it was before it was held; GONE removes the row.
TRANSITIONS: dict[str, dict[str | None, str]] = {
    "resubmit": {READY: RESUBMIT, FAILED: RESUBMIT, HOLD: RESUBMIT, PENDING: RESUBMIT, RESUBMIT: RESUBMIT},
    "hold": {None: HOLD, READY: HOLD, FAILED: HOLD, RESUBMIT: HOLD, PENDING: HOLD, HOLD: HOLD},
    "release": {HOLD: BACK, PENDING: BACK},
    "fail": {None: FAILED, READY: FAILED, RESUBMIT: FAILED, HOLD: FAILED, PENDING: FAILED, FAILED: FAILED},
    "forget": {READY: GONE, FAILED: GONE, RESUBMIT: GONE, HOLD: GONE, PENDING: GONE},
}
PAST = {"resubmit": "resubmitted", "hold": "held", "release": "released", "fail": "failed", "forget": "forgotten"}


class Repeat(WrongData):
    """A chunk has the content of another one."""

    def __init__(self, message: str, *, hint: str, dataid: str) -> None:
        super().__init__(message, hint=hint)
        self.dataid = dataid


def announce(
    tx: Transaction,
    catalogue: Catalogue,
    datasetid: str,
    dataids: Sequence[str],
    manifests: Mapping[str, Manifest],
    bounds: Mapping[str, tuple[str, str]],
    who: str,
    why: str | None,
    *,
    repeats: bool,
    only_new: bool = False,
) -> Announced:
    """Make chunks READY that something outside produced; what is READY already, with the same content, stays as it is.

    only_new refuses chunks that are there at all.
    """
    dataset = catalogue.dataset(datasetid)
    partition = dataset.partition
    wanted = list(dict.fromkeys(check_dataid(partition, dataid, datasetid) for dataid in dataids))
    tx.run("lock_dataset", datasetid=datasetid)
    ready: list[str] = []
    unchanged: list[str] = []
    contents: dict[str, str] = {}
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        ids = compact([(datasetid, dataid) for dataid in batch])
        there = {row[1]: row for row in tx.rows("chunks_given", chunks=ids)}
        versions = {row[1]: row[2] for row in tx.rows("versions_given", chunks=ids)}
        rows, events, published = [], [], []
        for dataid in batch:
            row = there.get(dataid)
            status = row[3] if row else None
            if status in (RUNNING, HOLD, PENDING):
                raise Locked(f"{datasetid} {dataid} is {status}", hint=_way_out(status, datasetid, dataid))
            if status and only_new:
                raise Locked(f"{datasetid} {dataid} is there already", hint=f"see: odf explain {datasetid} {dataid}")
            manifest = manifests.get(dataid)
            if row is not None and status == READY and _is_same(tx, row, manifest):
                unchanged.append(dataid)
                continue
            if manifest is not None and manifest.fingerprint and not repeats:
                _refuse_repeat(tx, datasetid, dataid, manifest.fingerprint, contents)
            version = 1 + max(row[4] if row else 0, row[5] if row else 0, versions.get(dataid) or 0)
            lower, upper = bounds.get(dataid, (None, None))
            rows.append(
                _row(
                    datasetid,
                    dataid,
                    row[2] if row else OUTSIDE,
                    READY,
                    version,
                    version,
                    None,
                    sort_key(partition, dataid),
                    lower,
                    upper,
                )
            )
            events.append(_event("announced", datasetid, dataid, rows[-1]["jobid"], status, READY, who, why, version))
            if manifest is not None:
                published.append(manifest_row(datasetid, dataid, version, rows[-1]["jobid"], None, manifest))
            ready.append(dataid)
        if rows:
            before: list[tuple[str, dict[str, Any]]] = [
                ("chunks_put", {"chunks": compact(rows)}),
                ("events_put", {"events": compact(events)}),
            ]
            if published:
                before.append(("manifest_put", {"manifests": compact(published)}))
            candidates.settle(tx, catalogue, [(datasetid, row["dataid"]) for row in rows], before=before)
    return Announced(tuple(ready), tuple(unchanged))


def _is_same(tx: Transaction, row: Row, manifest: Manifest | None) -> bool:
    if manifest is None:
        return True
    stored = tx.row("manifest", datasetid=row[0], dataid=row[1], version=row[5])
    if stored is None:
        return False
    if manifest.fingerprint:
        return bool(stored[11] == manifest.fingerprint)
    return (stored[5], stored[7]) == (manifest.location, manifest.bytes)


def _refuse_repeat(
    tx: Transaction, datasetid: str, dataid: str, fingerprint: str, announced_with_it: dict[str, str]
) -> None:
    stored = tx.row("same_content", datasetid=datasetid, dataid=dataid, fingerprint=fingerprint)
    other = stored[0] if stored else announced_with_it.setdefault(fingerprint, dataid)
    if other != dataid:
        raise Repeat(
            f"{datasetid} {dataid} has exactly the content of {datasetid} {other}",
            hint="is this the right file? If repeats are normal here, set repeats = true on the dataset",
            dataid=dataid,
        )


def refused(tx: Transaction, datasetid: str, problem: Repeat, who: str) -> None:
    """Remember that a chunk was not taken, for whoever asks why it is not there; once, however often it is offered."""
    last = tx.row("events_of_chunk_newest", datasetid=datasetid, dataid=problem.dataid, n=1)
    if last is None or event(last).why != problem.message:
        refusal = _event("refused", datasetid, problem.dataid, OUTSIDE, None, problem.name, who, problem.message, None)
        tx.run("events_put", events=compact([refusal]))


def steer(
    tx: Transaction,
    catalogue: Catalogue,
    verb: str,
    datasetid: str,
    dataids: Iterable[str],
    who: str,
    why: str | None,
    *,
    force: bool,
    dry_run: bool,
) -> list[tuple[str, str, str | None, str | None]]:
    """Do one verb to chunks; returns (datasetid, dataid, before, after) of each, siblings included. All of it or nothing."""
    dataset = catalogue.dataset(datasetid)
    wanted = list(dict.fromkeys(check_dataid(dataset.partition, dataid, datasetid) for dataid in dataids))
    producer = catalogue.producer(datasetid)
    group = producer.outputs if producer is not None else (datasetid,)
    # One run writes all its outputs, so what is said about one of them is said about the run.
    chunks = [(each, dataid) for dataid in wanted for each in group]
    pairs = candidates.touched(catalogue, chunks)
    put_off = {tuple(row) for row in tx.rows("lock_candidates", pairs=compact(list(pairs)))}
    there = {
        (row[0], row[1]): row
        for start in range(0, len(chunks), _BATCH)
        for row in tx.rows("chunks_given", chunks=compact(chunks[start : start + _BATCH]))
    }
    changed: list[tuple[str, str, str | None, str | None]] = []
    put, gone, events, lost = [], [], [], []
    for name, dataid in chunks:
        row = there.get((name, dataid))
        before = row[3] if row else None
        if before is None and name != datasetid:
            continue
        after = _after(verb, before, row, name, dataid, force)
        if before == RUNNING and row is not None and row[10] == RUNNING:
            lost.append(row[6])
        # To say RESUBMIT again ends the pause before the next try, as an UPDATE by SQL does.
        is_due = verb == "resubmit" and producer is not None and (producer.jobid, dataid) in put_off
        if before == after and not is_due:
            continue
        jobid = row[2] if row else producer.jobid if producer else OUTSIDE
        if after is None:
            gone.append((name, dataid, jobid, OUT))
        else:
            key = sort_key(catalogue.datasets[name].partition, dataid)
            held = (row[8] if row and before == PENDING else before) if after == HOLD else None
            put.append(_row(name, dataid, jobid, after, row[4] if row else 0, row[5] if row else 0, held, key))
        events.append(_event(PAST[verb], name, dataid, jobid, before, after, who, why, row[4] if row else None))
        changed.append((name, dataid, before, after))
    if dry_run:
        return changed
    if verb == "forget" and producer is not None:
        gone += _inputs_to_forget(tx, catalogue, producer, wanted)
    for runid in dict.fromkeys(lost):
        end_lost_run(tx, runid, f"{PAST[verb]} by {who}")
    if put:
        tx.run("chunks_put", chunks=compact(put))
    remove(tx, gone)
    if events:
        tx.run("events_put", events=compact(events))
        candidates.settle(tx, catalogue, chunks, by_person=True)
    return changed


def rollback(
    tx: Transaction,
    catalogue: Catalogue,
    datasetid: str,
    dataid: str,
    to: int | None,
    who: str,
    why: str | None,
    *,
    dry_run: bool,
) -> list[tuple[str, str, int, int]]:
    """Let a READY chunk be another of its published versions; returns (datasetid, dataid, version before, version after).

    One run writes all its outputs, so its other outputs go back with it. Epochs stay: the next one is still a new one.
    """
    dataset = catalogue.dataset(datasetid)
    check_dataid(dataset.partition, dataid, datasetid)
    producer = catalogue.producer(datasetid)
    group = producer.outputs if producer is not None else (datasetid,)
    there = {row[0]: row for row in tx.rows("chunks_given", chunks=compact([(each, dataid) for each in group]))}
    _must_be_ready(datasetid, dataid, there.get(datasetid))
    version = _version_before(tx, datasetid, dataid, there[datasetid][5]) if to is None else to
    changed, put, events = [], [], []
    for name in group:
        row = there.get(name)
        _must_be_ready(name, dataid, row)
        assert row is not None
        before = int(row[5])
        if before == version and name != datasetid:
            continue
        _must_be_there(tx, catalogue, name, dataid, before, version)
        put.append(_row(name, dataid, row[2], READY, row[4], version, None, row[9]))
        told = f"version {before} → {version}" + (f": {why}" if why else "")
        events.append(_event("rolled back", name, dataid, row[2], READY, READY, who, told, row[4]))
        changed.append((name, dataid, before, version))
    if not dry_run:
        tx.run("chunks_put", chunks=compact(put))
        tx.run("events_put", events=compact(events))
    return changed


def _must_be_ready(datasetid: str, dataid: str, row: Row | None) -> None:
    status = row[3] if row else None
    if status != READY:
        raise BadTransition(
            f"{datasetid} {dataid} {f'is {status}' if status else 'was never produced'}: rollback needs READY",
            hint=f"see: odf explain {datasetid} {dataid}",
        )


def _version_before(tx: Transaction, datasetid: str, dataid: str, now: int) -> int:
    gone = {row[0] for row in tx.rows("vacuumed_versions", datasetid=datasetid, dataid=dataid)}
    for row in tx.rows("manifests_of_chunk", datasetid=datasetid, dataid=dataid):
        if row[2] < now and row[2] not in gone:
            return int(row[2])
    raise BadTransition(
        f"{datasetid} {dataid} has no version before {now} that is still there",
        hint=f"see: odf explain {datasetid} {dataid}",
    )


def _must_be_there(tx: Transaction, catalogue: Catalogue, datasetid: str, dataid: str, now: int, version: int) -> None:
    """Refuse a version that cannot be the current one, as far as the store can tell."""
    dataset = catalogue.dataset(datasetid)
    here = f"{datasetid} {dataid}"
    if dataset.options.get("layout") == "plain" or dataset.kind == "table":
        what = "is a table" if dataset.kind == "table" else 'has layout = "plain"'
        raise BadTransition(
            f"dataset {datasetid} {what}: a new version replaces the old one, which is gone",
            hint=f"have it produced again: odf resubmit {here}",
        )
    if version == now:
        raise BadTransition(f"{here} is version {version} already")
    found = tx.row("manifest", datasetid=datasetid, dataid=dataid, version=version)
    if found is None:
        known = [str(row[2]) for row in tx.rows("manifests_of_chunk", datasetid=datasetid, dataid=dataid)]
        raise BadTransition(
            f"{here} has no version {version}", hint=f"it has {', '.join(known)}" if known else "it has none"
        )
    if version in {row[0] for row in tx.rows("vacuumed_versions", datasetid=datasetid, dataid=dataid)}:
        raise BadTransition(
            f"the files of {here} version {version} were removed by odf vacuum",
            hint=f"have it produced again: odf resubmit {here}",
        )
    if found[11] and not dataset.options.get("repeats"):
        _refuse_repeat(tx, datasetid, dataid, found[11], {})


def vacuumed(
    tx: Transaction, datasetid: str, versions: Sequence[tuple[str, int]], who: str, why: str | None
) -> list[tuple[str, int]]:
    """Record that the files of old versions are about to be removed; returns those that nobody needs: they may go.

    From here on nobody can roll back to them.
    """
    chunks = sorted({(datasetid, dataid) for dataid, _ in versions})
    there = {
        row[1]: row
        for start in range(0, len(chunks), _BATCH)
        for row in tx.rows("chunks_given", chunks=compact(chunks[start : start + _BATCH]))
    }
    free, events = [], []
    for dataid, version in versions:
        row = there.get(dataid)
        readers = tx.rows("readers_of_chunk", datasetid=datasetid, dataid=dataid)
        if (row and row[5] == version) or any(each[3] == RUNNING and each[6] == version for each in readers):
            continue
        free.append((dataid, version))
        known = {each[0] for each in tx.rows("vacuumed_versions", datasetid=datasetid, dataid=dataid)}
        if version not in known:
            jobid = row[2] if row else OUTSIDE
            events.append(_event("vacuumed", datasetid, dataid, jobid, None, None, who, why, version))
    if events:
        tx.run("events_put", events=compact(events))
    return free


def _after(verb: str, before: str | None, row: Row | None, datasetid: str, dataid: str, force: bool) -> str | None:
    transitions = TRANSITIONS[verb]
    if before == RUNNING:
        if not force:
            raise Locked(
                f"{datasetid} {dataid} is RUNNING (run {row[6] if row else '?'})",
                hint="wait for it, or take it away from its run with --force",
            )
        after = {"release": FAILED, "hold": HOLD, "resubmit": RESUBMIT, "fail": FAILED, "forget": GONE}[verb]
    elif before in transitions:
        after = transitions[before]
    elif before is None:
        raise BadTransition(
            f"{datasetid} {dataid} was never produced: there is nothing to {verb}", hint=f"see: odf status {datasetid}"
        )
    else:
        possible = ", ".join(str(each) for each in transitions if each)
        raise BadTransition(
            f"{datasetid} {dataid} is {before}: {verb} needs {possible}", hint=f"see: odf explain {datasetid} {dataid}"
        )
    if after == BACK:
        held = row[8] if row else None
        return FAILED if held == RUNNING else held
    return None if after == GONE else after


def _inputs_to_forget(
    tx: Transaction, catalogue: Catalogue, producer: Any, dataids: Sequence[str]
) -> list[tuple[str, str, str, str]]:
    """The IN rows of the forgotten runs, where the input belongs to that output alone."""
    rows = []
    for item in producer.inputs:
        if not item.mapping.is_shared:
            needed = [(item.datasetid, each) for dataid in dataids for each in catalogue.needed(producer, item, dataid)]
            there = tx.rows("readings_given", jobid=producer.jobid, chunks=compact(needed))
            rows += [(row[0], row[1], producer.jobid, IN) for row in there]
    return rows


def _way_out(status: str, datasetid: str, dataid: str) -> str:
    if status == RUNNING:
        return "it is being produced right now; wait for it"
    return f"somebody set it aside; to give it free: odf release {datasetid} {dataid}"


def _row(
    datasetid: str,
    dataid: str,
    jobid: str,
    status: str,
    epoch: int,
    version: int,
    held: str | None,
    key: str,
    lower: str | None = None,
    upper: str | None = None,
) -> dict[str, Any]:
    return {
        "datasetid": datasetid,
        "dataid": dataid,
        "jobid": jobid,
        "status": status,
        "epoch": epoch,
        "version": version,
        "held": held,
        "sort_key": key,
        "lower": lower,
        "upper": upper,
    }


def _event(
    kind: str,
    datasetid: str,
    dataid: str,
    jobid: str,
    before: str | None,
    after: str | None,
    who: str,
    why: str | None,
    epoch: int | None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "datasetid": datasetid,
        "dataid": dataid,
        "jobid": jobid,
        "epoch": epoch,
        "before": before,
        "after": after,
        "who": who,
        "why": why,
    }
