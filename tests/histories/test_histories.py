"""Random histories: whatever people, machines and crashes do, the store is where the model says it is."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from tests.histories.playing import Stage, Told

pytestmark = pytest.mark.fault(14)

BLOCK = 50
HISTORIES = {"sqlite": 1000, "postgres": 250}
STORMS = {"sqlite": 100, "postgres": 50}
SOAKED = 10_000  # histories of each store, and a tenth of that as storms
Record = Callable[[str, object], None]
STORES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture
def stage(store: str, request: pytest.FixtureRequest) -> Stage:
    """The stage of a store."""
    found: Stage = request.getfixturevalue(f"{store}_stage")
    return found


def blocks(wanted: dict[str, int]) -> list[object]:
    """A block of histories each, so that several processes can share them."""
    return [
        pytest.param(store, number, id=f"{store}-{number}", marks=[pytest.mark.postgres] if store == "postgres" else [])
        for store, count in wanted.items()
        for number in range(count // BLOCK)
    ]


def seeds(store: str, number: int, usual: int, soaked: int, soak: bool) -> list[str]:
    """The same ones every time; for a soak, new ones, and as many more of them."""
    if not soak:
        return [f"{number * BLOCK + each}" for each in range(BLOCK)]
    fresh = secrets.token_hex(4)
    print(f"seeds: {fresh}-0 and so on")
    return [f"{fresh}-{each}" for each in range(BLOCK * soaked // usual)]


def told(what: str, store: str, seed: str, full: Told, short: Told | None = None) -> str:
    """What somebody needs who looks into it."""
    lines = [f"{what} {seed} of {store} leads astray: {full.problem}", f"{full}"]
    if short is not None:
        lines += ["", "as short as it can be:", f"{short}"]
    lines += ["", f"to play it again: pytest tests/histories --{what} {seed} -k 'again and {store}'"]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("store", "block"), blocks(HISTORIES))
def test_no_history_leads_astray(stage: Stage, store: str, block: int, soak: bool, record_property: Record) -> None:
    played = seeds(store, block, HISTORIES[store], SOAKED, soak)
    record_property(f"{store}_histories", len(played))
    for seed in played:
        history = stage.history(seed)
        if history.problem:
            pytest.fail(told("history", store, seed, history, stage.shortest(history)))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("store", "block"), blocks(STORMS))
def test_whatever_several_processes_do_at_once_nothing_is_lost(
    stage: Stage, store: str, block: int, soak: bool, record_property: Record
) -> None:
    played = seeds(store, block, STORMS[store], SOAKED // 10, soak)
    record_property(f"{store}_storms", len(played))
    for seed in played:
        storm = stage.storm(seed)
        if storm.problem:
            pytest.fail(told("storm", store, seed, storm))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("what", ["history", "storm"])
def test_one_that_led_astray_is_played_again(
    stage: Stage, store: str, what: str, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption(f"--{what}") or "0"
    play: Callable[[str], Told] = getattr(stage, what)
    again = play(seed)
    assert not again.problem, told(what, store, seed, again, stage.shortest(again) if what == "history" else None)


def test_a_store_that_does_something_else_is_found_out_and_the_history_made_short(
    sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.histories import history

    monkeypatch.setitem(history.EXPECT, "drop_out", lambda model, _, name, dataid: None)
    found = next(each for seed in range(100) if (each := sqlite_stage.history(f"{seed}")).problem)
    short = sqlite_stage.shortest(found)
    assert short.problem
    assert short.steps[-1][1].kind == "drop_out"
    assert len(short.steps) <= 3
