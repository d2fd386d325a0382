"""One history: the same actions on a store and on the model, which must agree after each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, Protocol

from opendataflow.store import Claim
from tests.histories.actions import Action, called, given, kth, wanted
from tests.histories.drawing import Mood, Scene
from tests.histories.flows import Flow
from tests.histories.hands import Answer
from tests.histories.typed import Typed
from tests.histories.world import RESUBMIT, SET_ASIDE, Note, Refused


class Worker(Protocol):
    """Whoever acts."""

    def do(self, verb: str, *arguments: Any) -> Answer:
        """One verb."""


class Divergence(AssertionError):
    """Store and model disagree."""


class Seen(NamedTuple):
    """What the tables hold, for comparing."""

    out: dict[Any, Any]
    read: dict[Any, Any]
    runs: dict[int, str]


Stale = set[tuple[str, str, bool]]
Rows = Callable[[str], list[tuple[Any, ...]]]


class History:
    """A store and a model that go through the same."""

    def __init__(self, flow: Flow, hands: Sequence[Worker], rows: Rows) -> None:
        self.flow, self.hands, self.rows = flow, hands, rows
        self.model = Typed(flow)
        self.claims: list[Claim] = []
        self._same("register", hands[0].do("register", flow, flow.works, False, True), Answer(None))
        self.model.notes += [Note("job", jobid=work.name) for work in flow.works]

    def draw(self, rng: Random, mood: Mood) -> Action:
        """What happens next."""
        return mood.drawn(Scene(rng, self.flow, self.model, self.claims))

    def step(self, hand: int, action: Action) -> None:
        """Let it happen, and compare."""
        request = called(action, self.flow, self.claims)
        if request is None:
            return
        trial = self.model.copy()
        try:
            expected = Answer(EXPECT[action.kind](trial, self, *action.of))
        except Refused as refused:
            expected = Answer(None, str(refused))
        answer = self.hands[hand % len(self.hands)].do(*request)
        if action.kind == "claim" and not (answer.no or expected.no):
            self._took(trial, action.of[0], expected.value, answer.value)
        else:
            self._same(action.kind, answer, expected)
        is_dry = action.kind == "look" or (action.kind in ("steer", "rollback", "recall") and action.of[-1])
        if not (expected.no or is_dry):
            self.model = trial
        self.compare()

    def _took(self, trial: Typed, jobid: str, takes: Sequence[Any], claims: Sequence[Claim]) -> None:
        got = [
            (
                claim.dataid,
                claim.epoch,
                claim.tries,
                claim.was_resubmit,
                claim.forced,
                tuple(sorted(tuple(item) for item in claim.inputs)),
            )
            for claim in claims
        ]
        if got != [tuple(take) for take in takes]:
            raise Divergence(f"claim of {jobid}: the store gave {got}, the model {[tuple(take) for take in takes]}")
        for claim, take in zip(claims, takes, strict=True):
            trial.took(jobid, take, claim.runid)
        self.claims += claims

    def _same(self, what: str, answer: Answer, expected: Answer) -> None:
        if what == "look" and not answer.no:
            expected = self._looked(answer, expected)
        values = [_plain(each.value) if what in ANSWERED else None for each in (answer, expected)]
        if answer.no != expected.no or values[0] != values[1]:
            raise Divergence(f"{what}: the store said {answer}, the model {expected}")

    def _looked(self, answer: Answer, expected: Answer) -> Answer:
        """What is expected of a look: what may be said to be stale, or not, is as the store says."""
        candidates, least, most = expected.value
        _, stale = answer.value
        are_bounds = {each[:2] for each in least} <= {each[:2] for each in stale} <= {each[:2] for each in most}
        return Answer((candidates, stale if are_bounds else most))

    def seen(self) -> Seen:
        """What the tables hold now."""
        out, read = {}, {}
        for name, dataid, jobid, locktype, *row in self.rows(
            "select datasetid, dataid, jobid, locktype, status, version, epoch, tries, held from datastatus"
        ):
            status, version, epoch, tries, held = row
            if locktype == "OUT":
                out[name, dataid] = (jobid, status, epoch, version, tries, held if status in SET_ASIDE else None)
            else:
                read[name, dataid, jobid] = (status, version)
        return Seen(out, read, dict(self.rows("select runid, status from run")))

    def compare(self) -> None:
        """The tables hold what the model holds."""
        model = self.model
        expected = Seen(
            {
                chunk: (
                    row.jobid,
                    row.status,
                    row.epoch,
                    row.version,
                    row.tries,
                    row.held if row.status in SET_ASIDE else None,
                )
                for chunk, row in model.out.items()
            },
            {key: (row.status, row.version) for key, row in model.read.items()},
            {runid: run.status for runid, run in model.runs.items()},
        )
        seen = self.seen()
        for what, now, then in zip(Seen._fields, seen, expected, strict=True):
            if now != then:
                only = {
                    key: (now.get(key), then.get(key))
                    for key in now.keys() | then.keys()
                    if now.get(key) != then.get(key)
                }
                raise Divergence(f"{what}: (store, model) differ in {only}")

    def conclude(self) -> None:
        """In the end everything that is left can be taken, in order, and nothing else."""
        self.step(0, Action("rescue"))
        self.step(0, Action("fold"))
        model = self.model
        found: dict[tuple[str, str], set[str]] = {}
        for jobid, dataid, state in self.rows("select jobid, dataid, state from candidate where state <> 'WAITING'"):
            found.setdefault((jobid, state), set()).add(dataid)
        expected: dict[tuple[str, str], set[str]] = {}
        for jobid in model.jobs:
            for dataid in model.claimable(jobid):
                state = "DEFERRED" if (jobid, dataid) in model.deferred else "CLAIMABLE"
                expected.setdefault((jobid, state), set()).add(dataid)
        if found != expected:
            raise Divergence(f"candidates: the store has {found}, the model {expected}")
        recalled = {tuple(row) for row in self.rows("select datasetid, dataid, version from recalled")}
        if recalled != model.recalled:
            raise Divergence(f"recalled: the store has {recalled}, the model {model.recalled}")
        waiting = {tuple(row) for row in self.rows("select datasetid, dataid, version from remake")}
        standing = {(*chunk, row.version) for chunk, row in model.out.items() if row.status == RESUBMIT}
        remade = {(*chunk, version) for chunk, version in model.remade.items()}
        if waiting & standing != remade & standing:
            raise Divergence(f"remade: the store has {waiting & standing}, the model {remade & standing}")
        self.step(0, Action("look"))


# What the model expects --------------------------------------------------------------------------------------------------

ANSWERED = ("fail", "rescue", "announce", "steer", "rollback", "recall", "remake", "vacuum", "look")


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _commit(model: Typed, history: History, *of: Any) -> None:
    done = given(Action("commit", of), history.claims)
    model.commit([(claim.runid, claim.outputs, claim.was_resubmit, contents) for claim, contents in done])


def _fail(model: Typed, history: History, k: int, outcome: str) -> str:
    claim = kth(history.claims, k)
    return model.fail(claim.runid, claim.tries, outcome, claim.outputs)


def _give_back(model: Typed, history: History, k: int, wait: float, refused: bool) -> None:
    claim = kth(history.claims, k)
    model.give_back(claim.runid, claim.outputs, claim.was_resubmit, wait)


def _claim(
    model: Typed, history: History, jobid: str, n: int, dataid: str | None, force: bool, holds: bool
) -> list[Any]:
    for claim in history.claims if holds else ():
        with suppress(Refused):
            model.heartbeat(claim.runid)
    return model.claim(jobid, n, dataid, force)


def _heartbeat(model: Typed, history: History, k: int) -> bool:
    model.heartbeat(kth(history.claims, k).runid)
    return True


def _cancel(model: Typed, history: History, k: int) -> bool:
    model.cancel(kth(history.claims, k).runid)
    return True


def _shake(model: Typed, history: History, k: int, how: str) -> Any:
    runid = kth(history.claims, k).runid
    tries = model.claim_of(runid)
    outputs = model.jobs[model.runs[runid].jobid].writes
    if how == "commit":
        return model.commit([(runid, outputs, False, {})])
    if how == "fail":
        return model.fail(runid, tries, "JOB_FAILED", outputs)
    return model.heartbeat(runid)


def _expire(model: Typed, history: History, k: int) -> None:
    model.expire(kth(history.claims, k).runid)


def _steer(
    model: Typed, history: History, verb: str, name: str, dataids: Sequence[str], force: bool, dry_run: bool
) -> Any:
    return model.steer(verb, name, dataids, force=force)


def _register(model: Typed, history: History, *of: Any) -> None:
    model.define(wanted(Action("register", of), history.flow))


def _unregister(model: Typed, history: History, jobid: str, by_prune: bool) -> None:
    model.undefine(jobid)
    if by_prune:
        model.slots = history.flow.slots
        for work in history.flow.works:
            if work.name != jobid:
                model.define(work)


def _put(model: Typed, history: History, name: str, dataid: str, word: str) -> None:
    if (name, dataid) in model.out:
        raise Refused("USAGE")
    model.insert_out((name, dataid), word)


def _put_in(model: Typed, history: History, *of: str) -> None:
    if of[:3] in model.read:
        raise Refused("USAGE")
    model.insert_in((of[0], of[1], of[2]), of[3])


def _look(model: Typed, history: History) -> tuple[dict[str, list[str]], Stale, Stale]:
    """What can run is as after a fold, which changes nothing; the marks are as they stand."""
    least, most = model.stale(least=1), model.stale()
    model.fold()
    return {jobid: model.candidates(jobid) for jobid in model.jobs}, least, most


def _type_view(model: Typed, history: History, name: str, dataid: str, word: str) -> None:
    if model.producer(name) is not None:
        model.type_out((name, dataid), word)


def _type_rule(model: Typed, history: History, jobid: str, retries: int) -> None:
    if jobid in model.jobs:
        model.jobs[jobid] = model.jobs[jobid]._replace(retries=retries)


def _pause(model: Typed, history: History, jobid: str) -> None:
    if jobid not in model.jobs:
        raise Refused("UNKNOWN_JOB")
    model.paused.add(jobid)


def _resume(model: Typed, history: History, jobid: str) -> None:
    if jobid not in model.jobs and jobid not in model.paused:
        raise Refused("UNKNOWN_JOB")
    model.paused.discard(jobid)


def _slots(model: Typed, history: History, slots: int | None) -> None:
    model.slots = slots


EXPECT: dict[str, Callable[..., Any]] = {
    "claim": _claim,
    "commit": _commit,
    "fail": _fail,
    "give_back": _give_back,
    "heartbeat": _heartbeat,
    "expire": _expire,
    "rescue": lambda model, _: model.rescue(),
    "cancel": _cancel,
    "shake": _shake,
    "announce": lambda model, _, name, dataids, contents, only_new, again: model.announce(
        name, dataids, contents, only_new=only_new, again=again
    ),
    "steer": _steer,
    "rollback": lambda model, _, name, dataid, to, dry_run: model.rollback(name, dataid, to),
    "recall": lambda model, _, name, dataid, cascade, hold, dry_run: model.recall(
        name, dataid, cascade=cascade, hold=hold
    ),
    "remake": lambda model, _, chunks: model.remake(chunks),
    "vacuum": lambda model, _, name, old: model.vacuum(name, old),
    "pause": _pause,
    "resume": _resume,
    "slots": _slots,
    "type_slots": _slots,
    "type_out": lambda model, _, name, dataid, word: model.type_out((name, dataid), word),
    "type_view": _type_view,
    "put_out": _put,
    "drop_out": lambda model, _, name, dataid: model.delete_out((name, dataid)),
    "touch": lambda model, _, name, dataid: model.type_out((name, dataid)),
    "type_in": lambda model, _, *of: model.type_in(of[:3], of[3]),
    "put_in": _put_in,
    "drop_in": lambda model, _, *of: model.delete_in(of),
    "by_hand": lambda model, _, jobid, dataid, word: model.resubmit_by_hand(jobid, dataid, word),
    "type_rule": _type_rule,
    "register": _register,
    "unregister": _unregister,
    "fold": lambda model, _: model.fold(),
    "look": _look,
}
