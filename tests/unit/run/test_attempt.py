"""The one order of a run, with executors that are only played: what each way of going wrong leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset, Input, Job, Partition, Store
from opendataflow.errors import BadKey, JobFailed, LeaseLost, NotValidated, Stopped
from opendataflow.model import NOT_ASKED, YES, Manifest
from opendataflow.model import Mapping as Dataids
from opendataflow.project import Environment, Project
from opendataflow.run import context
from opendataflow.run.attempt import admit_all, begin, end_all, finish, give_back, run, run_next, work
from opendataflow.run.executors.script import Handshake
from opendataflow.run.heartbeat import Heartbeat, Pulse
from opendataflow.run.process.logs import LogFile
from opendataflow.run.records import Attempt, ExecutorResult, Result, RunRequest
from opendataflow.run.worker import Worker
from opendataflow.secrets import Key, dataset_context, decrypt, encrypt

SECRET = "open-sesame-42"
KEY = Key("a long enough passphrase")


class Played:
    """An executor that does what a test says, and remembers the order of its calls."""

    on_spark = False

    def __init__(
        self,
        work: Callable[[Attempt], ExecutorResult] = lambda attempt: ExecutorResult(),
        judge: Callable[[Attempt], Mapping[str, Manifest]] = lambda attempt: {},
    ) -> None:
        self.work, self.judge = work, judge
        self.calls: list[str] = []
        self.inputs: list[tuple[str, ...]] = []

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, ExecutorResult]:
        self.calls.append("execute")
        self.inputs += [tuple(chunk.dataid for chunk in attempt.inputs) for attempt in attempts]
        return {attempt.claim.runid: self.work(attempt) for attempt in attempts}

    def audit(self, attempt: Attempt, done: ExecutorResult) -> Mapping[str, Manifest]:
        self.calls.append("audit")
        return self.judge(attempt)

    def publish_files(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        self.calls.append("publish_files")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as opened:
        number = Partition("number")
        token = encrypt(SECRET, KEY, dataset_context(Dataset("raw")))
        opened.register(
            [
                Dataset("raw", partition=number, encryptedpass=token),
                *(Dataset(name, partition=number) for name in ("clean", "rates", "total")),
            ],
            [
                Job("load", (Input("raw"),), ("clean",)),
                Job("rate", (Input("raw"), Input("rates", Dataids("latest"))), ("total",)),
            ],
        )
        opened.announce("raw", ["1", "2", "3"])
        yield opened


@pytest.fixture
def worker(store: Store, tmp_path: Path) -> Worker:
    environment = Environment("dev", (str(tmp_path),))
    project = Project(tmp_path, None, "test", (tmp_path / "jobs",), environment, ("dev",), tmp_path / "logs")
    return Worker(store, project, KEY, echo=False)


def one(worker: Worker, executor: Played, dataid: str | None = None, **more: bool) -> Result:
    return run_next(worker, RunRequest("load", dataid, **more), executor)


def status(store: Store, dataid: str) -> str | None:
    chunk = store.views.chunk("clean", dataid)
    return chunk.status if chunk else None


def test_a_chunk_is_claimed_executed_audited_and_published(worker: Worker, store: Store):
    executor = Played()
    result = one(worker, executor)
    assert (result.outcome, result.exit_code, result.status) == ("READY", 0, "READY")
    assert executor.calls == ["execute", "audit", "publish_files"]
    assert executor.inputs == [("1",)]
    assert status(store, "1") == "READY"
    assert result.claim is not None
    assert result.log is not None
    assert store.views.run(result.claim.runid).log == str(result.log)


def test_what_fails_at_work_is_never_audited(worker: Worker, store: Store):
    executor = Played(lambda attempt: ExecutorResult(problem=JobFailed("no"), exit_code=3))
    result = one(worker, executor)
    assert (result.outcome, result.exit_code, result.status) == ("JOB_FAILED", 1, "FAILED")
    assert executor.calls == ["execute"]
    assert store.views.runs()[0].exit_code == 3


def test_what_fails_its_audit_is_never_published(worker: Worker, store: Store):
    def judge(attempt: Attempt) -> Mapping[str, Manifest]:
        raise NotValidated("empty")

    result = one(worker, Played(judge=judge))
    assert (result.outcome, result.exit_code, status(store, "1")) == ("NOT_VALIDATED", 13, "FAILED")
    assert store.views.manifest("clean", "1") is None


def test_the_log_says_why_nothing_was_published(worker: Worker, store: Store):
    """Whatever the work itself wrote there: the audit and the commit come after it."""

    def empty(attempt: Attempt) -> Mapping[str, Manifest]:
        raise NotValidated("it is empty")

    def repeated(attempt: Attempt) -> Mapping[str, Manifest]:
        return {"clean": Manifest(fingerprint="same", rows=1)}

    logs = [one(worker, Played(judge=judge)).log for judge in (empty, repeated, repeated)]
    noted = [log.read_text().splitlines()[1:] for log in logs if log is not None]
    assert noted == [
        ["# run 1: NOT_VALIDATED: it is empty (FAILED)"],
        [],
        ["# run 3: WRONG_DATA: clean 3 would have exactly the content of clean 2 (FAILED)"],
    ]


def test_code_that_is_gone_fails_the_chunk_and_leaves_nothing_locked(worker: Worker, store: Store):
    """A drain claims a chunk of a job that was changed meanwhile, and whose code is looked for again."""
    claims = store.claim("load", 2)
    results = worker.run(store.catalogue(), claims)
    assert [(result.outcome, result.status) for result in results] == [("BAD_CONFIG", "FAILED")] * 2


def test_what_an_executor_raises_is_the_problem_of_the_chunk(worker: Worker, store: Store):
    def work(attempt: Attempt) -> ExecutorResult:
        raise ZeroDivisionError("division by zero")

    assert one(worker, Played(work)).outcome == "JOB_FAILED"
    assert status(store, "1") == "FAILED"


def test_an_interrupt_leaves_nothing_locked_and_goes_on(worker: Worker, store: Store):
    def work(attempt: Attempt) -> ExecutorResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one(worker, Played(work))
    assert status(store, "1") == "RESUBMIT"
    assert store.views.runs()[0].outcome == Stopped.name


def test_a_stop_is_told_from_a_failure(worker: Worker, store: Store):
    def work(attempt: Attempt) -> ExecutorResult:
        worker.cancelled.set()
        raise RuntimeError("its Spark jobs were cancelled")

    result = one(worker, Played(work))
    assert (result.outcome, result.exit_code) == ("STOPPED", 130)


def test_no_secret_is_stored_or_shown_with_a_failure(worker: Worker, store: Store):
    executor = Played(
        lambda attempt: ExecutorResult(problem=JobFailed(f"cannot connect with {attempt.secrets['raw']}"))
    )
    result = one(worker, executor)
    detail = store.views.runs()[0].detail
    assert detail is not None
    assert "cannot connect with" in detail
    assert SECRET not in detail + result.detail


def test_a_password_that_is_decrypted_while_the_work_runs_is_not_in_its_log(worker: Worker, store: Store):
    """A check compares with a table that the job itself does not read."""
    token = encrypt("hunter2-of-rates", KEY, dataset_context(Dataset("rates")))
    store.register([Dataset("rates", partition=Partition("number"), encryptedpass=token)])

    class Comparing(Played):
        def execute(
            self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile
        ) -> Mapping[int, ExecutorResult]:
            word = worker.vault.password(attempts[0].catalogue.dataset("rates"))
            log.note(f"cannot connect with {word}")
            return super().execute(attempts, heartbeat, log)

    log = one(worker, Comparing()).log
    assert log is not None
    assert log.read_text().splitlines()[1:] == ["# cannot connect with [redacted]"]


def test_a_password_is_decrypted_once_for_all_chunks(worker: Worker, monkeypatch: pytest.MonkeyPatch):
    decrypted = []

    def counted(*given: Any) -> str:
        decrypted.append(given)
        return decrypt(*given)

    monkeypatch.setattr(context, "decrypt", counted)
    outcomes = [one(worker, Played()).outcome for _ in range(3)]
    assert outcomes == ["READY"] * 3
    assert len(decrypted) == 1


def test_a_wrong_key_claims_nothing(worker: Worker, store: Store):
    with pytest.raises(BadKey):
        one(Worker(store, worker.project, Key("another passphrase"), echo=False), Played())
    assert store.views.runs() == []


def test_a_run_that_lost_its_chunk_publishes_nothing(worker: Worker, store: Store):
    def work(attempt: Attempt) -> ExecutorResult:
        store.resubmit("clean", ["1"], force=True)
        return ExecutorResult()

    result = one(worker, Played(work))
    assert (result.outcome, result.exit_code) == (LeaseLost.name, LeaseLost.exit_code)
    assert status(store, "1") == "RESUBMIT"


def test_work_is_stopped_when_the_lease_is_lost(worker: Worker, store: Store):
    """The heartbeat finds out, tells the work to stop, and the verdict is LEASE_LOST whatever the work then raises."""
    store.dml("update jobrule set lease = 0.15 where jobid = 'load'")
    stopped = threading.Event()

    class Working(Played):
        def execute(
            self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile
        ) -> Mapping[int, ExecutorResult]:
            heartbeat.stop = stopped.set
            store.resubmit("clean", ["1"], force=True)
            assert stopped.wait(30)
            heartbeat.check()
            raise AssertionError("the heartbeat did not say that the lease is lost")

    assert one(worker, Working()).outcome == LeaseLost.name


def test_chunks_that_run_together_fail_each_on_their_own(worker: Worker, store: Store):
    def work(attempt: Attempt) -> ExecutorResult:
        return ExecutorResult(problem=JobFailed("no")) if attempt.claim.dataid == "2" else ExecutorResult()

    results = run(worker, store.catalogue(), store.claim("load", 3), Played(work))
    assert [result.outcome for result in results] == ["READY", "JOB_FAILED", "READY"]


def test_one_chunk_that_may_not_be_published_stops_no_other(worker: Worker, store: Store):
    def judge(attempt: Attempt) -> Mapping[str, Manifest]:
        same = "same" if attempt.claim.dataid != "3" else "other"
        return {"clean": Manifest(fingerprint=same, rows=1)}

    results = run(worker, store.catalogue(), store.claim("load", 3), Played(judge=judge))
    assert [result.outcome for result in results] == ["READY", "WRONG_DATA", "READY"]


def test_a_lost_lease_undoes_no_other_that_ends_together_with_it(worker: Worker, store: Store):
    batches = admit_all(worker, store.catalogue(), [[claim] for claim in store.claim("load", 3)], Played())
    for batch in batches:
        work(worker, batch)
    store.resubmit("clean", ["2"], force=True)
    end_all(worker, batches)
    outcomes = [result.outcome for batch in batches for result in batch.results.values()]
    assert outcomes == ["READY", "LEASE_LOST", "READY"]


def test_what_was_admitted_and_not_begun_becomes_what_it_was(worker: Worker, store: Store):
    [batch] = admit_all(worker, store.catalogue(), [store.claim("load")], Played())
    give_back(worker, batch, "its drain ended before it began")
    assert (batch.results, status(store, "1"), store.views.running()) == ({}, None, [])
    [event] = store.views.last_events("clean", "1", 1)
    assert (event.kind, event.after, event.why) == ("given back", None, "its drain ended before it began")
    assert batch.log is not None
    assert batch.log.path.read_text().splitlines()[1:] == ["# run 1: its drain ended before it began"]
    [claim] = store.claim("load")
    assert (claim.dataid, claim.tries) == ("1", 1)


def test_a_forced_run_is_asked_nothing_and_says_so(worker: Worker, store: Store):
    one(worker, Played())
    told: list[str] = []
    worker.say = told.append
    assert one(worker, Played(), "1", force=True).outcome == "READY"
    assert "permanently marked as forced" in told[0]
    assert [event.receipt.verdict for event in store.views.receipts("load", "1") if event.receipt] == [YES, NOT_ASKED]


@pytest.mark.parametrize(
    ("asked", "outcome", "code"),
    [
        (RunRequest("load"), "NOTHING_TO_DO", 0),
        (RunRequest("load", "9"), "DATA_NOT_READY", 10),
        (RunRequest("load", "1"), "LOCKED", 14),
        (RunRequest("rate", "1"), "DATA_NOT_READY", 10),
    ],
)
def test_what_cannot_be_claimed_is_answered_with_the_decision(
    worker: Worker, store: Store, asked: RunRequest, outcome: str, code: int
):
    for _ in range(3):
        one(worker, Played())
    result = run_next(worker, asked, Played())
    assert (result.outcome, result.exit_code, result.claim) == (outcome, code, None)
    if asked.dataid is not None:
        job = store.catalogue().job(asked.jobid)
        refused = store.views.last_events(job.outputs[0], asked.dataid, 1)[0]
        assert refused.receipt is not None
        assert refused.receipt.verdict == outcome, "the stored receipt says the same no, not five yeses"
        assert refused.receipt.no is not None


def test_a_handshake_is_the_same_order_in_two_halves(worker: Worker, store: Store):
    attempt = begin(worker, RunRequest("load", lease=60.0))
    assert isinstance(attempt, Attempt)
    assert status(store, "1") == "RUNNING"
    result = finish(worker, store.claim_of(attempt.claim.runid), Handshake(worker), ExecutorResult())
    assert (result.outcome, status(store, "1")) == ("READY", "READY")
    again = begin(worker, RunRequest("load"))
    assert isinstance(again, Attempt)
    failed = finish(worker, again.claim, Handshake(worker), ExecutorResult(problem=JobFailed("cut")))
    assert (failed.outcome, failed.status) == ("JOB_FAILED", "FAILED")


def test_a_handshake_can_be_mended_and_ended_again(worker: Worker, store: Store):
    """What may not be published yet is no reason to take the run from whoever does the work."""

    def judge(attempt: Attempt) -> Mapping[str, Manifest]:
        raise NotValidated("empty")

    attempt = begin(worker, RunRequest("load"))
    assert isinstance(attempt, Attempt)
    with pytest.raises(NotValidated):
        finish(worker, attempt.claim, Played(judge=judge), ExecutorResult())
    assert status(store, "1") == "RUNNING"
    assert finish(worker, attempt.claim, Played(), ExecutorResult()).status == status(store, "1") == "READY"


def test_a_chunk_costs_few_transactions(worker: Worker, store: Store, monkeypatch: pytest.MonkeyPatch):
    """claim, the inputs, the log, the commit: what more there is, somebody fetches twice."""
    one(worker, Played())
    transactions = []
    real = store._do

    def counted(work: Any, **how: Any) -> Any:
        transactions.append(work)
        return real(work, **how)

    monkeypatch.setattr(store, "_do", counted)
    assert run(worker, store.known, store.claim("load"), Played())[0].outcome == "READY"
    assert len(transactions) <= 4
    store.announce("raw", [str(number) for number in range(4, 20)])
    transactions.clear()
    batches = admit_all(worker, store.known, [[claim] for claim in store.claim("load", 16)], Played())
    for batch in batches:
        work(worker, batch)
    end_all(worker, batches)
    assert len(transactions) <= 4, "as many for 16 that a drain takes together"


def test_chunks_with_data_are_published_each_by_itself(worker: Worker, store: Store):
    """Files that were renamed for one may not be undone by another, and rows kept aside belong to their own chunk."""

    def judge(attempt: Attempt) -> Mapping[str, Manifest]:
        return {name: Manifest(location=f"/data/{attempt.claim.dataid}") for name in ("clean", "clean__rejected")}

    played = Played(judge=judge)
    batches = admit_all(worker, store.known, [[claim] for claim in store.claim("load", 3)], played)
    for batch in batches:
        work(worker, batch)
    end_all(worker, batches)
    kept = store.sql("select datasetid, dataid, location from data_manifest order by 1, 2")[1]
    assert kept == [(name, dataid, f"/data/{dataid}") for name in ("clean", "clean__rejected") for dataid in "123"]


def test_a_heartbeat_survives_every_error(worker: Worker, store: Store, monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    beats = threading.Event()
    real = store.heartbeat_many

    def beat(claims: Any) -> Any:
        if not said:
            raise ValueError("nobody expected this")
        beats.set()
        return real(claims)

    monkeypatch.setattr(store, "heartbeat_many", beat)
    monkeypatch.setattr(worker, "say", said.append)
    heartbeat = Heartbeat(store.claim("load", lease=0.3))
    pulse = Pulse(worker)
    pulse.add([heartbeat])
    assert beats.wait(60)
    pulse.remove([heartbeat])
    assert said[0].endswith("ValueError: nobody expected this")
