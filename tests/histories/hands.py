"""Hands: whoever acts on the store, by the verbs of the protocol and by SQL."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import OdfError
from opendataflow.model import Receipt
from opendataflow.store import Claim
from tests.histories.flows import Flow, Work, dataset, job, pool
from tests.support.flows import fold_in

WHY = "the history says so"


class Answer(NamedTuple):
    """What the store said: a value, or the name of a refusal and its message."""

    value: Any
    no: str = ""
    told: str = ""


def _manifests(contents: Mapping[str, str | None]) -> dict[str, Manifest]:
    return {name: Manifest(fingerprint=content) for name, content in contents.items()}


def _commit(store: Store, done: Sequence[tuple[Claim, Mapping[str, str | None]]]) -> None:
    if len(done) == 1:
        ((claim, contents),) = done
        store.commit(claim, _manifests(contents))
    else:
        store.commit_many([(claim, _manifests(contents), 0) for claim, contents in done])


def _give_back(store: Store, claim: Claim, wait: float, refused: bool) -> None:
    store.give_back(claim, Receipt(claim.jobid, claim.dataid) if refused else None, WHY, wait=wait)


def _shake(store: Store, runid: int, how: str) -> Any:
    claim = store.claim_of(runid)
    if how == "commit":
        return store.commit(claim)
    return store.fail(claim) if how == "fail" else store.heartbeat(claim)


def _announce(
    store: Store, name: str, dataids: Sequence[str], contents: Mapping[str, str | None], only_new: bool, again: bool
) -> tuple[list[str], list[str]]:
    said = store.announce(name, dataids, manifests=_manifests(contents), only_new=only_new, again=again)
    return list(said.ready), list(said.unchanged)


def _steer(store: Store, verb: str, name: str, dataids: Sequence[str], force: bool, dry_run: bool) -> list[Any]:
    say = getattr(store, "fail_chunks" if verb == "fail" else verb)
    return [tuple(change) for change in say(name, dataids, force=force, dry_run=dry_run)]


def _rollback(store: Store, name: str, dataid: str, to: int | None, dry_run: bool) -> list[Any]:
    return [tuple(change) for change in store.rollback(name, dataid, to, dry_run=dry_run)]


def _recall(
    store: Store, name: str, dataid: str, cascade: bool, hold: bool, dry_run: bool
) -> tuple[set[Any], set[int]]:
    called = store.recall(name, dataid, why=WHY, cascade=cascade, hold=hold, dry_run=dry_run)
    return {tuple(version) for version in called.versions}, {run.runid for run in called.lost}


def _remake(store: Store, chunks: Sequence[tuple[str, str]]) -> list[Any]:
    return [tuple(change) for change in store.remake(chunks)]


def _register(store: Store, flow: Flow, works: Sequence[Work], prune: bool, begins: bool = False) -> None:
    marked = {work.name for work in works if begins and work.writes == (work.name,)}
    datasets = [dataset(data) for data in flow.datas if data.name not in marked]
    store.register(datasets, [job(work) for work in works], [pool(flow.slots)] if begins or prune else [], prune=prune)


def _look(store: Store) -> tuple[dict[str, list[str]], set[tuple[str, str, bool]]]:
    with store.looking():
        stale = {(row.datasetid, row.dataid, row.is_direct) for row in store.views.stale()}
        return {jobid: store.views.next_dataids(jobid, 100) for jobid in store.catalogue().jobs}, stale


VERBS: dict[str, Callable[..., Any]] = {
    "claim": lambda store, jobid, n, dataid, force, held: store.claim(jobid, n, dataid=dataid, force=force, held=held),
    "commit": _commit,
    "fail": lambda store, claim, outcome: store.fail(claim, outcome),
    "give_back": _give_back,
    "heartbeat": lambda store, claim: bool(store.heartbeat(claim)),
    "rescue": lambda store: sorted((each.runid, each.status) for each in store.rescue()),
    "cancel": lambda store, runid: bool(store.cancel(runid)),
    "shake": _shake,
    "announce": _announce,
    "steer": _steer,
    "rollback": _rollback,
    "recall": _recall,
    "remake": _remake,
    "vacuum": lambda store, name, old: [tuple(each) for each in store.vacuumed(name, old)],
    "pause": lambda store, jobid: store.pause(jobid),
    "resume": lambda store, jobid: store.resume(jobid),
    "slots": lambda store, slots: store.set_pool(pool(slots)),
    "sql": lambda store, statement: store.dml(statement),
    "register": _register,
    "fold": lambda store: fold_in(store),
    "breaches": lambda store: [f"{each.promise}: {each.what}" for each in store.breaches()],
    "look": _look,
}


class Hand:
    """Somebody with a connection of his own."""

    def __init__(self) -> None:
        self._store: Store | None = None

    def open(self, url: str) -> None:
        """Work on this store from now on."""
        self.close()
        self._store = opendataflow.open(url, who="hand")

    def close(self) -> None:
        """Give the connection back."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def do(self, verb: str, *arguments: Any) -> Answer:
        """One verb, with what the store answered; what is no answer is raised."""
        assert self._store is not None
        try:
            return Answer(VERBS[verb](self._store, *arguments))
        except OdfError as error:
            return Answer(None, error.name, str(error))

    def storm(self, seed: str, flow: Flow, actions: int) -> list[str]:
        """So many actions, without waiting for anybody; what was answered to each."""
        from tests.histories.actions import called
        from tests.histories.drawing import Mood, Scene

        rng = random.Random(seed)
        mood = Mood(rng, beyond=True)
        claims: list[Claim] = []
        told = []
        for _ in range(actions):
            action = mood.drawn(Scene(rng, flow, None, claims))
            request = called(action, flow, claims)
            if request is not None and action.kind not in (
                "slots",
                "type_slots",
            ):  # so that one number can be held against it
                answer = self.do(*request)
                told.append(f"{request[0]} {answer.no}".strip())
                if request[0] == "claim" and not answer.no:
                    claims += answer.value
        return told
