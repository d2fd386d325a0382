"""Data that was wrong: found after others had used it, or corrected by whoever delivered it."""

from __future__ import annotations

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import LeaseLost, WrongData
from opendataflow.insight.stale import impact, stale_chunks
from opendataflow.store import Claim
from tests.support.flows import claim_one, dataset, job, status

DAYS = ("2025-11-10", "2025-11-11", "2025-11-12", "2025-11-13")
JOBS = ("cleaning", "joining", "sum_shops", "mean")
MADE = ("clean", "joined", "by_shop", "average")


class Warehouse:
    """Sales are delivered by day, cleaned, joined with rates, summed by shop, and averaged over two days.

    What a job makes is a function of what it read. Cleaning drops everything after a #, so that a delivery which differs
    only there comes out the same.
    """

    def __init__(self, store: Store, rule: str = "stale") -> None:
        self.store = store
        self.ran: list[tuple[str, str]] = []
        days = [dataset(name, "day", start=DAYS[0]) for name in ("sales", "rates", *MADE)]
        reads = {"cleaning": ("sales",), "joining": ("clean", "rates"), "sum_shops": ("joined",)}
        reads["mean"] = ("by_shop window 2",)
        made = zip(JOBS, MADE, strict=True)
        options = {"on_new_version": rule}
        store.register(days, [job(jobid, *reads[jobid], writes=name, options=options) for jobid, name in made])
        for day in DAYS:
            self.deliver("sales", day, f"sales of {day}")
            self.deliver("rates", day, f"rates of {day}")
        self.work()

    def deliver(self, datasetid: str, day: str, content: str) -> None:
        self.store.announce(datasetid, [day], manifests={day: Manifest(fingerprint=content)})

    def content(self, datasetid: str, day: str, version: int | None = None) -> str:
        published = self.store.views.manifest(datasetid, day, version)
        assert published is not None
        return published.manifest.fingerprint or ""

    def publish(self, claim: Claim) -> None:
        read = [self.content(*item) for item in claim.inputs]
        made = f"{claim.jobid} of ({', '.join(each.partition('#')[0] for each in read)})"
        self.store.commit(claim, {claim.outputs[0]: Manifest(fingerprint=made)})
        self.ran.append((claim.jobid, claim.dataid))

    def work(self) -> list[tuple[str, str]]:
        """Ordinary calls of a scheduler, in an unlucky order, until nothing is left; what ran."""
        self.ran.clear()
        while any(self._once(jobid) for jobid in reversed(JOBS)):
            pass
        return list(self.ran)

    def _once(self, jobid: str) -> bool:
        claims = self.store.claim(jobid)
        for claim in claims:
            self.publish(claim)
        return bool(claims)

    def right(self) -> dict[tuple[str, str], str]:
        """What everything would be if it had been made from the deliveries of now and nothing else."""
        made: dict[tuple[str, str], str] = {}
        for day in DAYS:
            clean = f"cleaning of ({self.content('sales', day).partition('#')[0]})"
            joined = f"joining of ({clean}, {self.content('rates', day).partition('#')[0]})"
            made |= {("clean", day): clean, ("joined", day): joined, ("by_shop", day): f"sum_shops of ({joined})"}
        for before, day in zip((None, *DAYS), DAYS, strict=False):
            read = [made["by_shop", each] for each in (before, day) if each]
            made["average", day] = f"mean of ({', '.join(read)})"
        return made

    def is_right(self) -> bool:
        right = self.right()
        return {chunk: self.content(*chunk) for chunk in right} == right


def test_the_bad_upstream_that_was_found_after_three_levels_of_jobs_had_used_it(store: Store) -> None:
    """On Thursday somebody finds that Tuesday's sales were wrong. Four jobs have used them since, and one of them reads what
    they made right now. One recall, in one transaction: nobody reads any of it again, the reader loses its chunk, Monday
    and the other days stay untouched. The vendor's cron job offers the same bad file again: refused. Then the right file
    comes, and the ordinary calls make everything again, in order, each chunk once.
    """
    house = Warehouse(store)
    bad = DAYS[1]
    store.resubmit("average", [DAYS[3]])
    untouched = claim_one(store, "mean", dataid=DAYS[3])
    store.resubmit("average", [bad])
    reader = claim_one(store, "mean", dataid=bad)
    preview = store.recall("sales", bad, cascade=True, why="prices in the wrong currency", dry_run=True)
    assert status(store, "clean", bad) == "READY", "a preview changes nothing"
    recall = store.recall("sales", bad, cascade=True, why="prices in the wrong currency")
    assert recall.versions == preview.versions
    assert {version[:2] for version in recall.versions} == {
        ("sales", bad),
        *((name, bad) for name in MADE),
        ("average", DAYS[2]),  # a mean of two days
    }
    assert [run.runid for run in recall.lost] == [reader.runid]
    with pytest.raises(LeaseLost):
        house.publish(reader)
    house.publish(untouched)
    assert all(status(store, name, day) == "READY" for name in MADE[:3] for day in DAYS if day != bad)
    assert house.work() == [], "nothing can be made from what nobody may read"
    with pytest.raises(WrongData):
        house.deliver("sales", bad, f"sales of {bad}")
    house.deliver("sales", bad, f"right sales of {bad}")
    ran = house.work()
    assert sorted(ran) == sorted([*((jobid, bad) for jobid in JOBS), ("mean", DAYS[2])])
    assert [jobid for jobid, day in ran if day == bad] == list(JOBS)
    assert house.is_right()
    events = [event for event in store.views.events("by_shop", bad) if event.kind == "recalled"]
    assert [event.why for event in events] == ["prices in the wrong currency"]


def test_the_corrected_delivery_that_nobody_acts_on_by_itself(store: Store) -> None:
    """The vendor corrects Tuesday. Everything that was made from the first delivery is shown as stale, and stays readable;
    the operator looks at what hangs on it, says --stale, and exactly that is made again, upstream first, each chunk once.
    """
    house = Warehouse(store)
    day, after = DAYS[1], DAYS[2]
    house.deliver("sales", day, "corrected sales")
    affected = [*((name, day) for name in MADE), ("average", after)]
    assert list(stale_chunks(store)) == affected
    assert house.work() == []
    seen = impact(store, "sales", day)
    assert ({(each.datasetid, each.dataid) for each in seen.made}, seen.stale) == (set(affected), len(affected))
    store.remake(stale_chunks(store), why="corrected delivery")
    ran = house.work()
    assert len(ran) == len(set(ran)) == 5
    assert [jobid for jobid, dataid in ran if dataid == day] == list(JOBS)
    assert house.is_right()
    assert stale_chunks(store) == {}


def test_the_corrected_delivery_that_jobs_take_up_by_themselves(store: Store) -> None:
    """The jobs say rerun: the corrected day flows through to the end without anybody."""
    house = Warehouse(store, rule="rerun")
    house.deliver("sales", DAYS[1], "corrected sales")
    ran = house.work()
    assert len(ran) == len(set(ran)) == 5
    assert house.is_right()
    assert stale_chunks(store) == {}


@pytest.mark.parametrize("rule", ["stale", "rerun"])
def test_a_correction_that_changes_nothing_that_matters_stops_where_the_content_is_equal(
    store: Store, rule: str
) -> None:
    """The vendor corrects a remark that cleaning drops. Cleaning runs again and makes the same; nothing behind it runs."""
    house = Warehouse(store, rule)
    house.deliver("sales", DAYS[1], f"sales of {DAYS[1]}# with a remark")
    if rule == "stale":
        assert len(store.remake(stale_chunks(store))) == 5
    assert house.work() == [("cleaning", DAYS[1])]
    assert all(status(store, name, day) == "READY" for name in MADE for day in DAYS)
    assert house.is_right()
    assert stale_chunks(store) == {}


def test_a_correction_of_one_input_while_another_is_being_made_again(store: Store) -> None:
    """Rates and sales of one day are corrected together: what is made from both runs once, after both."""
    house = Warehouse(store)
    house.deliver("sales", DAYS[1], "corrected sales")
    house.deliver("rates", DAYS[1], "corrected rates")
    store.remake(stale_chunks(store))
    ran = house.work()
    assert ran.count(("joining", DAYS[1])) == 1
    assert house.is_right()
