"""Outages as the night shift meets them: a Friday that breaks everything, two operators, a week without deliveries."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from threading import Barrier, Thread

import pytest

from opendataflow import Manifest, Store
from opendataflow.insight.recovery import plan, progress
from opendataflow.store import Claim, Recovered
from tests.support.flows import claim_one, dataset, drain, job, status
from tests.support.odf import Odf
from tests.support.outage import SAID, Flow, days

WEEK = days(5)
LEGEND = "UPDATE job_status SET status = 'RESUBMIT' WHERE status = 'FAILED'"


class Night:
    """A flow whose data can be told: each chunk is made of exactly what its run read."""

    def __init__(self, store: Store, flow: Flow) -> None:
        self.store, self.flow = store, flow
        self.ran: list[tuple[str, str]] = []
        flow.register(store)
        store.announce("feed", WEEK)

    def commit(self, claims: list[Claim]) -> None:
        """Publishes what was claimed."""
        self.store.commit_many(
            [
                (claim, {self.flow.out(claim.jobid): Manifest(fingerprint=self.content(claim.jobid, claim.dataid))}, 0)
                for claim in claims
            ]
        )
        self.ran += [(claim.jobid, claim.dataid) for claim in claims]

    def content(self, jobid: str, dataid: str) -> str:
        """What a run makes: the same whenever it runs."""
        return sha256(" ".join((jobid, dataid, *self.flow.reads(jobid))).encode()).hexdigest()

    def claim_all(self, jobids: list[str]) -> list[Claim]:
        """Everything that these jobs can take now."""
        return [claim for jobid in jobids for claim in self.store.claim(jobid, n=len(WEEK))]

    def network_is_lost(self) -> None:
        """The first level is done, the second is in the middle of it: it publishes, fails or falls silent."""
        first, second, *_ = self.flow.levels
        self.commit(self.claim_all(first))
        claims = self.claim_all(second)
        self.commit(claims[::3])
        for claim in claims[1::3]:
            self.store.fail(claim, detail=SAID.format(claim.runid % 9, 1), exit_code=255)
        silent = ", ".join(str(claim.runid) for claim in claims[2::3])
        self.store.dml(f"update run set lease_until = 1 where runid in ({silent})")

    def ordinary_schedule(self) -> None:
        """What cron does every day; each level is asked when its turn comes."""
        while claims := [self._run(jobids) for jobids in self.flow.levels]:
            if not any(claims):
                return

    def _run(self, jobids: list[str]) -> int:
        claims = self.claim_all(jobids)
        self.commit(claims)
        return len(claims)


def by_the_one_update(store: Store) -> None:
    """As the README says it."""
    store.dml(LEGEND)


def by_odf_recover(store: Store) -> None:
    """As `odf recover --yes` does it."""
    made = plan(store)
    (cause,) = [each for each in made.causes if each.outcome == "JOB_FAILED"]
    assert len(cause.jobs) > 100, "one cause, whichever job says it"
    store.recover(made.resubmit, why="the network is back")
    assert progress(store, made).stuck == 0


@pytest.mark.slow
@pytest.mark.parametrize("recover", [by_the_one_update, by_odf_recover])
def test_the_friday_outage(store: Store, recover: Callable[[Store], None]) -> None:
    """700 jobs in 6 levels over 5 days. On Friday the network is lost while the second level runs: a third of its chunks
    is published, a third fails, and a third hangs on machines that died. On Monday somebody says RESUBMIT, in one way or
    the other, and the scheduler does what it does every day. Nothing runs twice that need not, nothing is skipped, the
    order holds, and both ways end with the same data.
    """
    night = Night(store, Flow())
    night.network_is_lost()
    before = list(night.ran)
    recover(store)
    night.ordinary_schedule()
    every = {(jobid, day) for jobid in night.flow.jobids for day in WEEK}
    assert set(night.ran) == every
    assert len(night.ran) == len(every), "what was READY on Friday does not run again, and nothing runs twice"
    assert night.ran[: len(before)] == before
    turn = {run: n for n, run in enumerate(night.ran)}
    made_by = {night.flow.out(jobid): jobid for jobid in night.flow.jobids}
    for jobid, day in night.ran:
        assert all(turn[made_by[read], day] < turn[jobid, day] for read in night.flow.reads(jobid) if read != "feed")
    expected = {(night.flow.out(jobid), day): night.content(jobid, day) for jobid, day in every}
    _, rows = store.sql("select datasetid, dataid, fingerprint from data_manifest where datasetid <> 'feed'")
    assert {(name, day): content for name, day, content in rows} == expected
    assert plan(store).causes == ()


def test_two_operators_recover_at_the_same_time(store: Store, open_again: Callable[..., Store]) -> None:
    """Two people are woken by the same pager. Both see the same plan and both say --yes in the same second. Every chunk
    is resubmitted by exactly one of them, the other is told that it was not FAILED any more, and each runs once.
    """
    flow = Flow(jobs=12, levels=3)
    night = Night(store, flow)
    for claim in night.claim_all(flow.levels[0]):
        store.fail(claim, detail=SAID.format(1, 1))
    operators = [open_again(who="anna"), open_again(who="bert")]
    plans = [plan(each) for each in operators]
    assert plans[0].resubmit == plans[1].resubmit
    done: list[Recovered] = []
    barrier = Barrier(2)

    def recover(number: int) -> None:
        barrier.wait()
        done.append(operators[number].recover(plans[number].resubmit))

    threads = [Thread(target=recover, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changed = [(each.datasetid, each.dataid) for one in done for each in one.changed]
    assert sorted(changed) == sorted(plans[0].resubmit)
    assert sum(len(one.skipped) for one in done) == len(changed)
    assert plan(store).resubmit == ()
    night.ordinary_schedule()
    assert sorted(night.ran) == sorted((jobid, day) for jobid in flow.jobids for day in WEEK)
    for name, day in plans[0].resubmit:
        assert [event.kind for event in store.views.events(name, day)].count("resubmitted") == 1


def test_the_missed_week(store: Store) -> None:
    """Nothing is delivered for a week, while the rates keep coming. There is nothing to resubmit: the plan says who has to
    deliver what. Then everything comes at once. No day is skipped, and the days run in their order.
    """
    week = days(7)
    store.register(
        [dataset(name, "day", start=week[0]) for name in ("feed", "rates", "priced", "running_total")],
        [
            job("price", "feed", "rates", writes="priced"),
            job("total", "priced", "running_total lag 1", writes="running_total"),
        ],
    )
    store.announce("rates", week)
    store.refuse_arrival("feed", week[0], "NOT_VALIDATED", "0 rows")
    missed = plan(store)
    assert missed.resubmit == ()
    (hand,) = [each for each in missed.by_hand if each.name == "REFUSED"]
    assert hand.commands == (f"odf ready feed {week[0]}",)
    assert hand.behind >= 1
    assert drain(store, "price", "total") == []
    store.announce("feed", reversed(week))
    done = drain(store, "total", "price", n=1)
    assert [day for jobid, day in done if jobid == "price"] == week
    assert [day for jobid, day in done if jobid == "total"] == week
    assert plan(store).causes == ()


def test_the_pager_goes_and_one_command_heals_it(store: Store, store_url: str, tmp_path: object) -> None:
    """The same through the door that people have: look, say yes, and the schedule does the rest."""
    from pathlib import Path

    odf = Odf(Path(str(tmp_path)), store_url)
    flow = Flow(jobs=6, levels=3)
    night = Night(store, flow)
    store.fail(claim_one(store, flow.jobids[0]), detail=SAID.format(3, 1))
    shown = odf("recover", "--json").data
    assert (len(shown["causes"]), len(shown["resubmit"])) == (1, 1)
    odf("recover", "--yes", "--why", "the network is back")
    assert status(store, flow.out(flow.jobids[0]), WEEK[0]) == "RESUBMIT"
    night.ordinary_schedule()
    assert odf("recover").out.startswith("nothing to recover")
