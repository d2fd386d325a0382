"""Drawing: what happens next, at random, and as a rule something that has a meaning where the history has come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from opendataflow.store import Claim
from tests.histories.actions import Action, content, kth
from tests.histories.flows import FAR, Flow
from tests.histories.typed import Typed
from tests.histories.world import READY, RUNNING, SET_ASIDE, Chunk

STATUSES = ("READY", "FAILED", "RESUBMIT", "HOLD", "PENDING", "complete", "Error", "RERUN", "RESUBMIT")
READINGS = ("DONE", "FAILED", "error", "RESUBMIT", "RERUN")
STEERING = ("resubmit", "resubmit", "resubmit", "hold", "release", "release", "fail", "forget")
MOST_CLAIMS = 6


class Scene(NamedTuple):
    """Where a history has come to; without a model everything is as likely as anything."""

    rng: Random
    flow: Flow
    model: Typed | None
    claims: Sequence[Claim]

    def often(self, chance: float) -> bool:
        """Whether it is so this time."""
        return self.rng.random() < chance

    def chunk(self, fits: Callable[[Typed, Chunk], bool] | None = None) -> Chunk:
        """A chunk; as a rule one that fits."""
        chunks = [(data.name, dataid) for data in self.flow.datas for dataid in data.ids]
        if self.model is not None and fits is not None and self.often(0.8):
            model = self.model
            chunks = [chunk for chunk in chunks if fits(model, chunk)] or chunks
        return self.rng.choice(chunks)

    def made(self) -> Chunk:
        """A chunk that a job makes."""
        name = self.rng.choice(self.rng.choice(self.flow.works).writes)
        return name, self.rng.choice(self.flow.ids_of(name))

    def job(self) -> tuple[str, str]:
        """A job and one of its dataids; as a rule one that may be taken."""
        pairs = self.pairs() if self.often(0.8) else []
        if pairs:
            return self.rng.choice(pairs)
        work = self.rng.choice(self.flow.works)
        return work.name, self.rng.choice(self.flow.outputs_of(work.name))

    def pairs(self) -> list[tuple[str, str]]:
        """What may be taken now."""
        model = self.model
        if model is None:
            return []
        free = [jobid for jobid, work in model.jobs.items() if model.free(work)]
        return [(jobid, dataid) for jobid in free for dataid in model.claimable(jobid)]

    def reading(self) -> tuple[str, str, str]:
        """A relation of a job to a chunk."""
        if self.model is not None and self.model.read and self.often(0.8):
            return self.rng.choice(sorted(self.model.read))
        work = self.rng.choice([work for work in self.flow.works if work.reads])
        name = self.rng.choice(work.reads).name
        return name, self.rng.choice(self.flow.ids_of(name)), work.name

    def kth(self) -> int:
        """One of the newest claims; as a rule one that still runs."""
        ks = list(range(min(len(self.claims), MOST_CLAIMS))) or [0]
        if self.model is not None and self.claims and self.often(0.85):
            model = self.model
            ks = [k for k in ks if model.runs[kth(self.claims, k).runid].status == RUNNING] or ks
        return self.rng.choice(ks)

    def letter(self) -> str | None:
        """A content."""
        return self.rng.choices([None, "a", "b", "same"], [3, 7, 5, 1])[0]


def _is_there(model: Typed, chunk: Chunk) -> bool:
    return chunk in model.out


def _is_set_aside(model: Typed, chunk: Chunk) -> bool:
    return chunk in model.out and model.out[chunk].status in SET_ASIDE


def _has_versions(model: Typed, chunk: Chunk) -> bool:
    return (
        chunk in model.out
        and model.out[chunk].status in (READY, "FAILED", "RESUBMIT")
        and len(model.made.get(chunk, {})) > 1
    )


def _is_standing(model: Typed, chunk: Chunk) -> bool:
    return chunk in model.out and bool(model.out[chunk].version)


def _is_ready(model: Typed, chunk: Chunk) -> bool:
    return model.is_ready(chunk)


def _claim(scene: Scene) -> Action:
    if scene.model is not None and scene.often(0.6) and not scene.pairs():
        return _announce(scene)
    jobid, dataid = scene.job()
    how = scene.rng.random()
    if how < 0.7:
        return Action("claim", (jobid, scene.rng.choice([1, 1, 2, 3]), None, False, how < 0.2))
    return Action("claim", (jobid, 1, dataid, how > 0.9, False))


def _commit(scene: Scene) -> Action:
    if scene.model is not None and scene.often(0.9):
        running = [claim for claim in scene.claims if scene.model.runs[claim.runid].status == RUNNING]
        if not running:
            return _claim(scene)
    n = scene.rng.choice([1, 1, 1, 2, 3])
    return Action("commit", tuple((scene.kth(), scene.letter()) for _ in range(n)))


def _announce(scene: Scene) -> Action:
    made = {name for work in scene.flow.works for name in work.writes}
    sources = [data for data in scene.flow.datas if data.name not in made]
    data = scene.rng.choice(sources if sources and scene.often(0.85) else scene.flow.datas)
    dataids = tuple(scene.rng.choices(data.ids, k=scene.rng.choice([1, 1, 2, 3])))
    letter = scene.letter()
    contents = {dataid: content(letter, data.name, dataid) for dataid in dataids} if scene.often(0.7) else {}
    return Action("announce", (data.name, dataids, contents, scene.often(0.05), scene.often(0.15)))


def _steer(scene: Scene) -> Action:
    verb = scene.rng.choice(STEERING)
    name, dataid = scene.chunk(_is_set_aside if verb == "release" else _is_there)
    dataids = (dataid,) if scene.often(0.7) else (dataid, scene.rng.choice(scene.flow.ids_of(name)))
    return Action("steer", (verb, name, dataids, scene.often(0.4), scene.often(0.1)))


def _remake(scene: Scene) -> Action:
    stale = sorted(each[:2] for each in scene.model.stale()) if scene.model is not None else []
    if stale and scene.often(0.8):
        return Action("remake", (tuple(stale),))
    return Action("remake", ((scene.chunk(_is_ready), scene.chunk(_is_ready)),))


def _slots(scene: Scene) -> Action:
    return Action(scene.rng.choice(["slots", "type_slots"]), (scene.rng.choice([None, 0, 1, 2, 3]),))


def _register(scene: Scene) -> Action:
    rng = scene.rng
    index = rng.randrange(len(scene.flow.works) + len(scene.flow.others))
    rules = (rng.choice([0, 1, 2]), rng.choice([0.0, FAR]), rng.choice(["stale", "rerun", "ignore"]))
    return Action("register", (index, rules if scene.often(0.5) else None))


def _vacuum(scene: Scene) -> Action:
    name, dataid = scene.chunk(_has_versions)
    return Action("vacuum", (name, ((dataid, scene.rng.choice([1, 2])),)))


def _rollback(scene: Scene) -> Action:
    return Action("rollback", (*scene.chunk(_has_versions), scene.rng.choice([None, None, 1, 2]), scene.often(0.1)))


def _recall(scene: Scene) -> Action:
    return Action("recall", (*scene.chunk(_is_standing), scene.often(0.6), scene.often(0.3), scene.often(0.1)))


def _fail(scene: Scene) -> Action:
    return Action("fail", (scene.kth(), scene.rng.choice(["JOB_FAILED", "JOB_FAILED", "TIMED_OUT", "STOPPED"])))


def _give_back(scene: Scene) -> Action:
    return Action("give_back", (scene.kth(), scene.rng.choice([0.0, 0.0, FAR]), scene.often(0.5)))


def _shake(scene: Scene) -> Action:
    return Action("shake", (scene.kth(), scene.rng.choice(["commit", "fail", "heartbeat"])))


def _word(scene: Scene) -> str:
    return scene.rng.choice(STATUSES)


DRAW: dict[Callable[[Scene], Action], float] = {
    _claim: 22,
    _commit: 16,
    _announce: 12,
    _fail: 4,
    _give_back: 3,
    lambda scene: Action("heartbeat", (scene.kth(),)): 2,
    lambda scene: Action("expire", (scene.kth(),)): 3,
    lambda scene: Action("rescue"): 1.5,
    lambda scene: Action("cancel", (scene.kth(),)): 1.5,
    _shake: 3,
    _steer: 9,
    _rollback: 4,
    _recall: 2,
    _remake: 3,
    _vacuum: 0.5,
    lambda scene: Action("pause", (scene.job()[0],)): 0.7,
    lambda scene: Action("resume", (scene.job()[0],)): 1.4,
    _slots: 2,
    lambda scene: Action("type_out", (*scene.chunk(_is_there), _word(scene))): 4,
    lambda scene: Action("type_view", (*scene.chunk(_is_there), _word(scene))): 2,
    lambda scene: Action("put_out", (*scene.chunk(), _word(scene))): 2,
    lambda scene: Action("drop_out", scene.chunk(_is_there)): 2,
    lambda scene: Action("touch", scene.chunk(_is_there)): 1,
    lambda scene: Action("type_in", (*scene.reading(), scene.rng.choice(READINGS))): 1.5,
    lambda scene: Action("put_in", (*scene.reading(), scene.rng.choice(["DONE", "FAILED", "RUNNING"]))): 0.7,
    lambda scene: Action("drop_in", scene.reading()): 1,
    lambda scene: Action("by_hand", (*scene.job(), scene.rng.choice(["RESUBMIT", "RERUN"]))): 2,
    lambda scene: Action("type_rule", (scene.job()[0], scene.rng.choice([0, 1, 2]))): 1,
    _register: 1,
    lambda scene: Action("unregister", (scene.job()[0], scene.often(0.5))): 0.7,
    lambda scene: Action("fold"): 1,
    lambda scene: Action("look"): 2,
}


# What the model does not say: it happens only where nobody asks it, and the auditor looks afterwards.
BEYOND: dict[Callable[[Scene], Action], float] = {
    lambda scene: Action("type_out", (*scene.chunk(), "RUNNING")): 2,
    lambda scene: Action("put_out", (scene.chunk()[0], "x1", _word(scene))): 2,
    lambda scene: Action("break", scene.reading()[::2]): 1,
    lambda scene: Action("register", (scene.rng.randrange(len(scene.flow.works)), None)): 2,
}


class Mood:
    """Of what there is much in one history, and of what nothing: else everything would always be in the way of everything."""

    def __init__(self, rng: Random, *, beyond: bool = False) -> None:
        ways = {**DRAW, **BEYOND} if beyond else DRAW
        self._ways = list(ways)
        self._weights = [
            weight * rng.choice([1, 3] if way in (_claim, _commit, _announce) else [0, 0, 0.5, 1, 3])
            for way, weight in ways.items()
        ]

    def drawn(self, scene: Scene) -> Action:
        """The next thing that happens."""
        return scene.rng.choices(self._ways, self._weights)[0](scene)
