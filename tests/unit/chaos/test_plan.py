"""The plan of a chaos: seeded, bounded, and every kind of fault is in it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from opendataflow.chaos.plan import (
    ANY_MOMENT,
    DAMAGE_FILE,
    KILL_SPARK,
    KILL_WORKER,
    MEANING,
    ON_A_SERVER,
    STEPS,
    Fault,
    Settings,
    kinds_of,
    plan,
)

SEEDS = range(50)


def flat(lanes: tuple[tuple[Fault, ...], ...]) -> list[Fault]:
    return [fault for lane in lanes for fault in lane]


def test_a_seed_makes_the_same_plan_again_and_another_seed_another_one() -> None:
    assert plan(Settings(seed=7), True) == plan(Settings(seed=7), True)
    assert len({plan(Settings(seed=seed), True) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("has_server", [False, True])
@pytest.mark.parametrize("chunks", [2, 40, 1000])
@pytest.mark.parametrize("spark", [False, True])
def test_every_kind_strikes_and_their_number_is_bounded(has_server: bool, chunks: int, spark: bool) -> None:
    for seed in SEEDS:
        settings = Settings(chunks=chunks, seed=seed, spark=spark)
        lanes = plan(settings, has_server)
        assert len(lanes) == settings.workers + spark
        assert {fault.kind for fault in flat(lanes)} == set(kinds_of(settings, has_server))
        assert len(flat(lanes)) <= 2 * max(7, chunks // 2) + 3


def test_connections_are_broken_only_where_there_is_a_server() -> None:
    for seed in SEEDS:
        assert not {fault.kind for fault in flat(plan(Settings(seed=seed), False))} & set(ON_A_SERVER)


def test_a_worker_that_a_fault_left_alive_is_killed_before_the_next_one_is_armed() -> None:
    for seed in SEEDS:
        for lane in plan(Settings(seed=seed, workers=2), True)[:2]:
            for before, after in pairwise(lane):
                if before.kind != KILL_WORKER and after.kind != DAMAGE_FILE:
                    assert after == Fault(KILL_WORKER, ANY_MOMENT)


def test_workers_are_killed_at_every_step_before_any_comes_again() -> None:
    where = {fault.where.partition(":")[0] for seed in SEEDS for fault in flat(plan(Settings(seed=seed), False))}
    assert where >= {*STEPS, ANY_MOMENT, "*"}


def test_only_its_own_worker_breaks_spark() -> None:
    *scripts, spark = plan(Settings(spark=True), True)
    assert KILL_SPARK not in {fault.kind for lane in scripts for fault in lane}
    assert {fault.kind for fault in spark} == {KILL_WORKER, KILL_SPARK}


def test_no_fault_begins_so_late_that_the_flow_has_no_time_to_heal() -> None:
    assert Settings(minutes=10).striking < Settings(minutes=10).seconds == 600


def test_every_kind_says_what_it_is() -> None:
    assert set(kinds_of(Settings(spark=True), True)) == set(MEANING)
