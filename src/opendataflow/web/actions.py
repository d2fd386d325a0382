"""Actions: what somebody may do from a page. One table: who may do it, what it needs, what would happen, and the deed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..insight.words import are, count
from ..model.moment import parse_moment
from ..model.selector import KEYS, Selector
from ..model.timezone import time_zone
from ..steer import preview, verbs
from ..steer.preview import Preview
from .access import ADMIN, OPERATOR

if TYPE_CHECKING:
    from ..project import Project
    from ..store import Steered, Store

LONGEST_REASON = 500  # characters


class FormValues:
    """What a form or an address says; of a name, one value or several."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = {name: tuple(filter(None, values)) for name, values in fields.items()}

    def many(self, name: str) -> tuple[str, ...]:
        """All values of a name."""
        return self._fields.get(name, ())

    def one(self, name: str) -> str:
        """The value of a name; UsageError when it is missing."""
        values = self.many(name)
        if len(values) != 1:
            raise UsageError(f"one {name} has to be named", hint="Start from the page of what you mean.")
        return values[0]

    def text(self, name: str) -> str:
        """The value of a name, or nothing."""
        return next(iter(self.many(name)), "")

    def has(self, name: str) -> bool:
        """Whether something is ticked."""
        return bool(self.many(name))

    @property
    def why(self) -> str | None:
        """The reason that somebody gave."""
        reason = " ".join(self.text("why").split())
        if len(reason) > LONGEST_REASON:
            raise UsageError(f"a reason has at most {LONGEST_REASON} characters", hint="Say it in a few words.")
        return reason or None

    def selector(self, project: Project) -> Selector:
        """The chunks or events that are meant, in the words of all selectors; times are those of the project's zone."""
        named: dict[str, Any] = {part: self.many(key) for key, part in KEYS.items() if self.many(key)}
        zone, now = time_zone(project.timezone), datetime.now(UTC)
        if since := self.text("since"):
            named["since"] = parse_moment(since, now, zone)
        if until := self.text("until"):
            named["until"] = parse_moment(until, now, zone, end=True)
        return Selector(**named, everything=self.has("all"))

    @property
    def target(self) -> str:
        """What is meant, for a headline."""
        words = (*self.many("dataset"), *self.many("dataid")[:3], *self.many("job"), *self.many("pool"))
        return " ".join((*words, *(f"run {run}" for run in self.many("run"))))


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that can be chosen beside the reason: a box to tick, or a value to write."""

    name: str
    label: str
    kind: str = "checkbox"


@dataclass(frozen=True, slots=True)
class Action:
    """One verb: who may do it, which fields name what is meant, what can be chosen, what would happen, and the deed."""

    verb: str
    label: str
    role: str
    fields: tuple[str, ...]
    preview: Callable[[Store, Project, FormValues], Preview]
    act: Callable[[Store, Project, FormValues], str]
    choices: tuple[Choice, ...] = ()
    needs_reason: bool = False
    is_dangerous: bool = False

    @property
    def title(self) -> str:
        """The first words of a headline, before what is meant."""
        return "Cancel" if self.verb == "cancel" else f"{self.label} of pool" if self.verb == "pool" else self.label


def _changed(changes: Sequence[Steered], done: str) -> str:
    if not changes:
        return "Nothing was changed: it is so already."
    named = f"{changes[0].datasetid} {changes[0].dataid}" if len(changes) == 1 else count(len(changes), "chunk")
    after = {change.after for change in changes}
    now = f"{are(len(changes))} {after.pop()} now" if len(after) == 1 and None not in after else done
    return f"{named}: {now}" if now == done else f"{named} {now}"


def _steering(verb: str, done: str) -> dict[str, Callable[[Store, Project, FormValues], object]]:
    def show(store: Store, project: Project, given: FormValues) -> Preview:
        return preview.preview_chunks(store, verb, given.selector(project), force=given.has("force"))

    def act(store: Store, project: Project, given: FormValues) -> str:
        return _changed(_steered(store, verb, project, given), done)

    return {"preview": show, "act": act}


def _steered(store: Store, verb: str, project: Project, given: FormValues) -> list[Steered]:
    chunks = verbs.select_chunks(store, verb, given.selector(project))
    preview.check_number(sum(len(each.dataids) for each in chunks))
    return verbs.steer_chunks(store, verb, chunks, why=given.why, force=given.has("force"), seen=given.text("seen"))


def _foresee_resubmit(store: Store, project: Project, given: FormValues) -> Preview:
    if given.has("stale"):
        return preview.preview_remake(store, given.selector(project))
    return preview.preview_chunks(store, "resubmit", given.selector(project), force=given.has("force"))


def _resubmit(store: Store, project: Project, given: FormValues) -> str:
    if given.has("stale"):
        stale = verbs.select_stale(store, given.selector(project))
        preview.check_number(len(stale))
        return _changed(store.remake(stale, why=given.why, seen=given.text("seen")), "resubmitted")
    return _changed(_steered(store, "resubmit", project, given), "resubmitted")


def _foresee_recall(store: Store, project: Project, given: FormValues) -> Preview:
    how = {"cascade": given.has("cascade"), "hold": given.has("hold")}
    return preview.preview_recall(store, given.one("dataset"), given.one("dataid"), **how)


def _recall(store: Store, project: Project, given: FormValues) -> str:
    how = {"cascade": given.has("cascade"), "hold": given.has("hold")}
    if given.why is None:
        raise UsageError("a recall needs a reason", hint="Say it in a few words, for whoever asks later.")
    done = verbs.recall(store, given.one("dataset"), given.one("dataid"), why=given.why, seen=given.text("seen"), **how)
    return f"No job reads {count(len(done.versions), 'version')} again"


def _foresee_rollback(store: Store, project: Project, given: FormValues) -> Preview:
    return preview.preview_rollback(store, project, given.one("dataset"), given.one("dataid"), _version(given))


def _rollback(store: Store, project: Project, given: FormValues) -> str:
    name, dataid = given.one("dataset"), given.one("dataid")
    done = verbs.rollback(store, project, name, dataid, _version(given), why=given.why, seen=given.text("seen"))
    return f"{name} {dataid} is version {done[0].after} now"


def _version(given: FormValues) -> int | None:
    word = given.text("version")
    if not word:
        return None
    if not (word.isascii() and word.isdigit() and len(word) <= 9):
        raise UsageError(f"{word[:40]!r} is not a version", hint="Choose one of those on the page of the chunk.")
    return int(word)


def _cancel(store: Store, project: Project, given: FormValues) -> str:
    run = verbs.cancel(store, given.one("run"), why=given.why).run
    return f"Run {run.runid} of {run.jobid} {run.dataid} is cancelled"


def _pause(store: Store, project: Project, given: FormValues) -> str:
    return f"{verbs.pause(store, given.one('job'), why=given.why)} is paused"


def _resume(store: Store, project: Project, given: FormValues) -> str:
    job = given.one("job")
    return f"{job} goes on" if verbs.resume(store, job, why=given.why) else f"{job} was not paused"


def _pool(store: Store, project: Project, given: FormValues) -> str:
    from ..insight.pools import slots_text

    done = verbs.set_pool(store, given.one("pool"), given.one("slots"), why=given.why)
    return f"Slots of pool {done.pool.poolid}: {slots_text(done.pool.slots)}"


def _recover(store: Store, project: Project, given: FormValues) -> str:
    _, done = verbs.recover(store, given.many("cause"), why=given.why)
    if done is None:
        return "Nothing was changed: there is nothing to recover"
    n = len(done.changed)
    left = f"; {count(len(done.skipped), 'chunk')} left alone: not FAILED any more" if done.skipped else ""
    return f"{count(n, 'chunk')} {are(n)} RESUBMIT now{left}"


_CHUNKS = (*KEYS, "since", "until", "all", "stale")
_ONE_CHUNK = ("dataset", "dataid")
_FORCE = Choice("force", "Take RUNNING chunks away from their runs, which then cannot publish")

ACTIONS: dict[str, Action] = {
    action.verb: action
    for action in (
        Action("resubmit", "Resubmit", OPERATOR, _CHUNKS, _foresee_resubmit, _resubmit, (_FORCE,)),
        Action("hold", "Hold", OPERATOR, _CHUNKS, choices=(_FORCE,), **_steering("hold", "held")),  # type: ignore[arg-type]
        Action("release", "Release", OPERATOR, _CHUNKS, **_steering("release", "released")),  # type: ignore[arg-type]
        Action(
            "fail",
            "Fail",
            OPERATOR,
            _CHUNKS,
            choices=(_FORCE,),
            is_dangerous=True,
            **_steering("fail", "failed"),  # type: ignore[arg-type]
        ),
        Action(
            "forget",
            "Forget",
            ADMIN,
            _CHUNKS,
            choices=(_FORCE,),
            is_dangerous=True,
            **_steering("forget", "forgotten"),  # type: ignore[arg-type]
        ),
        Action(
            "recall",
            "Recall",
            ADMIN,
            _ONE_CHUNK,
            _foresee_recall,
            _recall,
            (
                Choice("cascade", "Everything that was really made from it too, at any distance"),
                Choice("hold", "Leave it recalled, on HOLD, instead of having it made again"),
            ),
            needs_reason=True,
            is_dangerous=True,
        ),
        Action(
            "rollback",
            "Roll back",
            ADMIN,
            _ONE_CHUNK,
            _foresee_rollback,
            _rollback,
            (Choice("version", "To this version (empty: the one before)", "number"),),
            is_dangerous=True,
        ),
        Action(
            "cancel",
            "Cancel the run",
            OPERATOR,
            ("run",),
            lambda store, project, given: preview.preview_cancel(store, given.one("run")),
            _cancel,
            is_dangerous=True,
        ),
        Action(
            "pause",
            "Pause",
            OPERATOR,
            ("job",),
            lambda store, project, given: preview.preview_pause(store, given.one("job")),
            _pause,
        ),
        Action(
            "resume",
            "Resume",
            OPERATOR,
            ("job",),
            lambda store, project, given: preview.preview_resume(store, given.one("job")),
            _resume,
        ),
        Action(
            "pool",
            "Set slots",
            OPERATOR,
            ("pool",),
            lambda store, project, given: preview.preview_pool(store, given.one("pool"), given.text("slots")),
            _pool,
            (Choice("slots", "Slots: a number, 0 for a pause, or unlimited", "text"),),
        ),
        Action(
            "recover",
            "Recover",
            OPERATOR,
            ("cause",),
            lambda store, project, given: preview.preview_recover(store, given.many("cause")),
            _recover,
        ),
    )
}
