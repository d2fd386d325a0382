"""Random histories: whatever people, jobs and crashes do, the store is where the lock tables say it is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from opendataflow import Store
from opendataflow.errors import BadTransition, LeaseLost, Locked
from opendataflow.model import Receipt, Retry
from opendataflow.store import Claim
from tests.support.flows import dataset, job

DATAIDS = st.sampled_from(["1", "2", "9", "10"])
NAMES = st.sampled_from(["raw", "mid", "out"])
JOBS = st.sampled_from(["a", "b"])
WORDS = st.sampled_from(["READY", "FAILED", "RESUBMIT", "HOLD", "PENDING", "complete", "Error", "RERUN"])
SYNONYMS = {"COMPLETE": "READY", "ERROR": "FAILED", "RERUN": "RESUBMIT"}
READS = {"a": "raw", "b": "mid"}
WRITES = {"a": "mid", "b": "out"}
PRODUCER = {"mid": "a", "out": "b"}
RETRIES = {"a": 0, "b": 1}
CRASHES = 2
SET_ASIDE = ("HOLD", "PENDING")

Key = tuple[str, str]


class Attempt(NamedTuple):
    """What the model remembers of a claim."""

    runid: int
    jobid: str
    dataid: str


class Model:
    """The protocol, small enough to be right: two dicts of statuses and who runs."""

    def __init__(self) -> None:
        self.out: dict[Key, str] = {}
        self.held: dict[Key, str | None] = {}
        self.read: dict[Key, str] = {}  # (job, dataid of its input)
        self.tries: dict[Key, int] = {}
        self.epochs: dict[Key, int] = {}
        self.versions: dict[Key, int] = {}
        self.running: dict[Key, Attempt] = {}  # (job, dataid)
        self.expired: set[int] = set()

    def candidates(self, jobid: str) -> list[str]:
        found = []
        for (name, dataid), status in self.out.items():
            if name != READS[jobid] or status != "READY":
                continue
            product, reading = self.out.get((WRITES[jobid], dataid)), self.read.get((jobid, dataid))
            again = product == "RESUBMIT"
            if product in (None, "RESUBMIT") and (reading in (None, "FAILED") or (again and reading == "DONE")):
                found.append((0 if again else 1, int(dataid), dataid))
        return [dataid for _, _, dataid in sorted(found)]

    def set(self, key: Key, status: str | None) -> None:
        """What a person, or the outside, says about a chunk: a run that had it has lost it, and tries begin anew."""
        self.lose(key)
        before = self.out.pop(key, None)
        if status in SET_ASIDE and before not in SET_ASIDE:
            self.held[key] = "FAILED" if before == "RUNNING" else before
        if status is not None:
            self.out[key] = status
        self.tries[key] = 0

    def lose(self, key: Key) -> None:
        name, dataid = key
        if name in PRODUCER and self.running.pop((PRODUCER[name], dataid), None) is not None:
            self.read[PRODUCER[name], dataid] = "FAILED"

    def end(self, claim: Attempt, out: str, reading: str) -> None:
        del self.running[claim.jobid, claim.dataid]
        self.out[WRITES[claim.jobid], claim.dataid] = out
        self.read[claim.jobid, claim.dataid] = reading

    def after_failure(self, claim: Attempt, crashes: int = 0) -> str:
        tries = self.tries[WRITES[claim.jobid], claim.dataid]
        return "RESUBMIT" if tries <= max(RETRIES[claim.jobid], crashes) else "FAILED"

    def rescue(self) -> None:
        for claim in list(self.running.values()):
            if claim.runid in self.expired:
                self.end(claim, self.after_failure(claim, CRASHES), "FAILED")


class History(RuleBasedStateMachine):
    """One history on one store; each has datasets and jobs of its own, so that the store can be shared."""

    numbers = count()

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.model = Model()
        self.claims: list[Claim] = []
        self.suffix = f"-{next(self.numbers)}"
        store.register(
            [dataset(self.name(each)) for each in ("raw", "mid", "out")],
            [
                job(
                    self.name(jobid),
                    self.name(READS[jobid]),
                    writes=self.name(WRITES[jobid]),
                    lease=1000.0,
                    retry=Retry(RETRIES[jobid], backoff=0),
                )
                for jobid in ("a", "b")
            ],
        )

    def name(self, short: str) -> str:
        return short + self.suffix

    def short(self, claim: Claim) -> Attempt:
        return Attempt(claim.runid, claim.jobid.removesuffix(self.suffix), claim.dataid)

    def is_mine(self, claim: Claim) -> bool:
        held = self.model.running.get((claim.jobid.removesuffix(self.suffix), claim.dataid))
        return held is not None and held.runid == claim.runid

    # Jobs

    @rule(dataid=DATAIDS)
    def announce(self, dataid: str) -> None:
        before = self.model.out.get(("raw", dataid))
        if before in SET_ASIDE:
            with pytest.raises(Locked):
                self.store.announce(self.name("raw"), [dataid])
            return
        self.store.announce(self.name("raw"), [dataid])
        if before != "READY":
            self.model.set(("raw", dataid), "READY")

    @rule(jobid=JOBS, n=st.integers(1, 3))
    def claim(self, jobid: str, n: int) -> None:
        self.model.rescue()
        expected = self.model.candidates(jobid)[:n]
        claims = self.store.claim(self.name(jobid), n=n)
        assert [claim.dataid for claim in claims] == expected
        self.took(claims)

    @rule(jobid=JOBS, dataid=DATAIDS)
    def claim_one(self, jobid: str, dataid: str) -> None:
        self.model.rescue()
        expected = [dataid] if dataid in self.model.candidates(jobid) else []
        claims = self.store.claim(self.name(jobid), dataid=dataid)
        assert [claim.dataid for claim in claims] == expected
        self.took(claims)

    def took(self, claims: list[Claim]) -> None:
        model = self.model
        for claim in claims:
            mine = self.short(claim)
            key = (WRITES[mine.jobid], mine.dataid)
            assert claim.epoch > model.epochs.get(key, 0), "epochs only grow"
            assert claim.was_resubmit == (model.out.get(key) == "RESUBMIT")
            model.epochs[key] = claim.epoch
            model.tries[key] = model.tries.get(key, 0) + 1
            assert claim.tries == model.tries[key]
            model.out[key] = "RUNNING"
            model.read[mine.jobid, mine.dataid] = "RUNNING"
            model.running[mine.jobid, mine.dataid] = mine
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(), how=st.sampled_from(["commit", "commit", "commit", "fail", "give_back", "heartbeat", "expire"])
    )
    def end(self, data: st.DataObject, how: str) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        if not self.is_mine(claim):
            calls: dict[str, Callable[[], Any]] = {
                "commit": lambda: self.store.commit(claim),
                "fail": lambda: self.store.fail(claim),
                "heartbeat": lambda: self.store.heartbeat(claim),
                "give_back": lambda: self.store.give_back(claim, Receipt(claim.jobid, claim.dataid), "no", wait=0),
            }
            if how in calls:
                with pytest.raises(LeaseLost):
                    calls[how]()
            return
        mine = self.short(claim)
        key = (WRITES[mine.jobid], mine.dataid)
        if how == "commit":
            self.store.commit(claim)
            self.model.end(mine, "READY", "DONE")
            self.model.tries[key] = 0
            self.model.versions[key] = claim.epoch
        elif how == "fail":
            expected = self.model.after_failure(mine)
            assert self.store.fail(claim) == expected
            self.model.end(mine, expected, "FAILED")
        elif how == "give_back":
            self.store.give_back(claim, Receipt(claim.jobid, claim.dataid), "no", wait=0)
            self.model.tries[key] -= 1
            if claim.was_resubmit:
                self.model.end(mine, "RESUBMIT", "FAILED")
            else:
                self.model.end(mine, "RUNNING", "RUNNING")
                del self.model.out[key]
                del self.model.read[mine.jobid, mine.dataid]
                self.model.tries[key] = 0
        elif how == "heartbeat":
            self.store.heartbeat(claim)
            self.model.expired.discard(claim.runid)
        else:
            self.store.dml(f"update run set lease_until = 1 where runid = {claim.runid}")
            self.model.expired.add(claim.runid)

    @rule()
    def rescue(self) -> None:
        self.model.rescue()
        self.store.rescue()

    # People

    @rule(name=NAMES, dataid=DATAIDS, word=WORDS)
    def type_status(self, name: str, dataid: str, word: str) -> None:
        status = SYNONYMS.get(word.upper(), word.upper())
        key = (name, dataid)
        if key in self.model.out:
            self.store.dml(
                f"update datastatus set status = '{word}' "
                f"where datasetid = '{self.name(name)}' and dataid = '{dataid}' and locktype = 'OUT'"
            )
        else:
            self.store.dml(
                "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
                f"values ('{self.name(name)}', '{dataid}', 'me', 'OUT', '{word}')"
            )
        self.model.set(key, status)

    @rule(dataid=DATAIDS)
    def the_legend_moment(self, dataid: str) -> None:
        self.store.dml(
            "update job_status set status = 'RESUBMIT' "
            f"where dataid = '{dataid}' and datasetid in ('{self.name('mid')}', '{self.name('out')}')"
        )
        for name in ("mid", "out"):
            if (name, dataid) in self.model.out:
                self.model.set((name, dataid), "RESUBMIT")

    @rule(name=NAMES, dataid=DATAIDS)
    def type_delete(self, name: str, dataid: str) -> None:
        if self.model.out.get((name, dataid)) != "RUNNING":
            self.store.dml(
                f"delete from datastatus where datasetid = '{self.name(name)}' and dataid = '{dataid}' and locktype = 'OUT'"
            )
            if (name, dataid) in self.model.out and name in PRODUCER:
                self.model.read.pop((PRODUCER[name], dataid), None)
            self.model.set((name, dataid), None)

    @rule(
        name=NAMES,
        dataid=DATAIDS,
        verb=st.sampled_from(["resubmit", "hold", "release", "fail", "forget"]),
        force=st.booleans(),
    )
    def steer(self, name: str, dataid: str, verb: str, force: bool) -> None:
        key = (name, dataid)
        before = self.model.out.get(key)
        say = getattr(self.store, "fail_chunks" if verb == "fail" else verb)
        refused: type[Exception] | None = None
        if before == "RUNNING":
            refused = None if force else Locked
        elif (before is None and verb in ("resubmit", "release", "forget")) or (
            verb == "release" and before not in SET_ASIDE
        ):
            refused = BadTransition
        if refused is not None:
            with pytest.raises(refused):
                say(self.name(name), [dataid], force=force)
            return
        say(self.name(name), [dataid], force=force)
        after = {"resubmit": "RESUBMIT", "hold": "HOLD", "fail": "FAILED", "forget": None, "release": "FAILED"}[verb]
        if verb == "release" and before != "RUNNING":
            after = self.model.held.pop(key, None)
        if before != after:
            self.model.set(key, after)
        if verb == "forget" and name in PRODUCER:
            self.model.read.pop((PRODUCER[name], dataid), None)

    # What must be true at every moment

    @invariant()
    def statuses_agree(self) -> None:
        rows = self.store.sql(
            f"select datasetid, dataid, status from datastatus where locktype = 'OUT' and datasetid like '%{self.suffix}'"
        )[1]
        assert {(name.removesuffix(self.suffix), dataid): status for name, dataid, status in rows} == self.model.out

    @invariant()
    def only_what_was_published_has_a_version(self) -> None:
        for (name, dataid), version in self.model.versions.items():
            published = self.store.manifest(self.name(name), dataid, version)
            assert published is not None
            assert published.version == version

    def teardown(self) -> None:
        """In the end everything that is left can be taken, in order, and nothing else."""
        self.rescue()
        self.store.fold_in()
        for jobid in ("a", "b"):
            assert self.store.next_dataids(self.name(jobid), n=100) == self.model.candidates(jobid)
        reads = self.store.sql(
            f"select jobid, dataid, status from datastatus where locktype = 'IN' and datasetid like '%{self.suffix}'"
        )[1]
        assert {(jobid.removesuffix(self.suffix), dataid): status for jobid, dataid, status in reads} == self.model.read


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_history_leads_astray(store: Store) -> None:
    run_state_machine_as_test(
        lambda: History(store),  # type: ignore[arg-type]  # it only calls it
        settings=settings(
            max_examples=40 if store.url.startswith("sqlite") else 10,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
