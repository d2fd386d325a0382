"""The plan of a chaos: seeded, bounded, and every kind of fault is in it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from opendataflow.chaos.plan import (
    ANY_MOMENT,
    DAMAGE_FILE,
    FREEZE_WORKER,
    KILL_SPARK,
    KILL_WORKER,
    MEANING,
    ON_A_SERVER,
    SETTLING,
    STEPS,
    TAKE_CHUNK,
    Fault,
    Settings,
    chosen,
    kinds_of,
    plan,
)
from opendataflow.errors import UsageError

SEEDS = range(50)
NAMES = [kind.replace(" ", "-") for kind in MEANING]


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


@pytest.mark.parametrize("has_server", [False, True])
def test_only_the_kinds_that_were_chosen_strike(has_server: bool) -> None:
    kinds = chosen("take-chunk, freeze-worker,take-chunk", spark=False, has_server=has_server)
    assert kinds == (TAKE_CHUNK, FREEZE_WORKER)
    for seed in SEEDS:
        lanes = plan(Settings(chunks=8, seed=seed, faults=kinds), has_server)
        assert {fault.kind for fault in flat(lanes)} == set(kinds)
        where = {fault.where for fault in flat(lanes) if fault.kind == TAKE_CHUNK}
        assert where <= {"spawned", "before commit"}


def test_every_kind_can_be_chosen_by_its_name_and_without_one_all_strike() -> None:
    assert chosen(",".join(NAMES), spark=True, has_server=True) == tuple(MEANING)
    assert kinds_of(Settings(faults=chosen("", spark=False, has_server=False)), False) == kinds_of(Settings(), False)


@pytest.mark.parametrize("text", ["nonsense", "kill-worker,nonsense", "lose-answer", "cut-connection", "kill-Spark"])
def test_a_kind_that_is_unknown_or_cannot_strike_here_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--faults"):
        chosen(text, spark=False, has_server=False)


def test_a_worker_is_frozen_between_the_fence_and_the_rename_only_where_a_server_undoes_its_commit() -> None:
    for has_server in (False, True):
        where = {fault.where for seed in SEEDS for fault in flat(plan(Settings(seed=seed), has_server))}
        assert (SETTLING in where) == has_server


def test_every_kind_says_what_it_is() -> None:
    assert set(kinds_of(Settings(spark=True), True)) == set(MEANING)
