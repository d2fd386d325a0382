"""A report of odf chaos that nobody had to run for."""

from __future__ import annotations

from opendataflow.chaos.plan import Fault
from opendataflow.chaos.report import FORMAT, ChaosReport, Machine, PromiseFact, fault_facts, kind_facts
from opendataflow.chaos.struck import Struck, StruckRun


def report(evil: str = "", *, verdict: str = "SURVIVED", evidence: tuple[str, ...] = ()) -> ChaosReport:
    """One with two faults; evil is what somebody may have written wherever text goes."""
    killed = Struck(Fault("kill worker", f"in commit{evil}"), 1, 2.5, [StruckRun("make", f"3{evil}", 7)], note=evil)
    killed.recovered = 3.25
    nothing = Struck(Fault("kill worker", "before claim"), 2, 4.0)
    frozen = Struck(Fault("freeze worker", "audited"), 2, 5.0, [StruckRun("use", "4", 9)], is_refused=True)
    frozen.recovered = 8.0
    faults = fault_facts([killed, nothing, frozen])
    return ChaosReport(
        FORMAT,
        verdict + evil,
        "2026-11-17T12:00:00+00:00" + evil,
        16.4,
        7,
        f"odf chaos --seed 7{evil}",
        Machine(f"vm{evil}", f"store.db{evil}", f"SQLite 3{evil}", f"/data{evil}", f"ext4{evil}", "", "0.1.0"),
        3.0,
        3,
        12,
        12,
        30,
        24,
        9,
        kind_facts(faults, ["kill worker", "freeze worker"]),
        (
            PromiseFact("an attempt publishes once", True, ()),
            PromiseFact(f"published data is what the job makes of its input{evil}", not evidence, evidence),
        ),
        faults,
        (),
        "",
        "",
        "",
    )
