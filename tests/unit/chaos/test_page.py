"""The page about chaos: it names every question that is asked, and every word of a plan."""

from __future__ import annotations

from pathlib import Path

from opendataflow.chaos.plan import MEANING, Settings, plan
from opendataflow.chaos.promises import PROMISES

PAGE = (Path(__file__).parents[3] / "docs/how-to/chaos.md").read_text(encoding="utf-8")


def test_the_page_lists_what_is_asked_and_nothing_else() -> None:
    listed = [line.removeprefix("- ") for line in PAGE.splitlines() if line.startswith("- ")]
    assert listed == list(PROMISES)


def test_the_page_explains_every_kind_of_fault() -> None:
    kinds = PAGE.partition("| fault | what is done | what must follow |")[2].partition("\n\n")[0]
    assert [kind for kind in MEANING if f"`{kind}`" not in kinds] == []


def test_the_page_explains_every_word_of_a_plan() -> None:
    words = PAGE.partition("| where | when it is |")[2].partition("\n\n")[0]
    for seed in range(50):
        for lane in plan(Settings(seed=seed, spark=True), True):
            for fault in lane:
                step = fault.where.partition(":")[0]
                assert f"`{step}`" in words or step == "*", step
