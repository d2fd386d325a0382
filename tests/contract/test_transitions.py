"""What a person may say about a chunk, verb by verb and status by status; a refusal writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opendataflow.store
from opendataflow import Store
from opendataflow.errors import BadTransition, Locked, UsageError
from opendataflow.model.decision.transitions import VERBS
from opendataflow.store import plan_digest
from tests.support.flows import (
    chain,
    change,
    claim_one,
    dataset,
    dump,
    fold_in,
    in_status,
    job,
    kinds,
    produce,
    put,
    status,
)

STATUSES = [None, "RUNNING", "READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"]
METHODS = {"resubmit": "resubmit", "hold": "hold", "release": "release", "fail": "fail_chunks", "forget": "forget"}
# The protocol's own table, in words: what a chunk becomes. A chunk set aside by an insert never was anything before.
BECOMES: dict[str, dict[str | None, str | None]] = {
    "resubmit": dict.fromkeys(("READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"), "RESUBMIT"),
    "hold": dict.fromkeys((None, "READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"), "HOLD"),
    "release": {"HOLD": "READY", "PENDING": "READY"},
    "fail": dict.fromkeys((None, "READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"), "FAILED"),
    "forget": dict.fromkeys(("READY", "FAILED", "RESUBMIT", "HOLD", "PENDING")),
}
ALLOWED = [(verb, before) for verb in METHODS for before in STATUSES if before in BECOMES[verb]]
REFUSED = [(verb, before) for verb in METHODS for before in STATUSES if before not in BECOMES[verb]]


def bring_to(store: Store, word: str | None) -> None:
    """A product chunk 1 that is in this status; it was READY before, where it was anything."""
    chain(store)
    store.announce("raw", ["1"])
    if word == "RUNNING":
        claim_one(store, "make")
    elif word is not None:
        produce(store, "make", "1")
        if word != "READY":
            change(store, "product", "1", word)
    fold_in(store)  # folds in what was typed


def say(store: Store, verb: str, dataid: str = "1", **how: Any) -> list[Any]:
    result: list[Any] = getattr(store, METHODS[verb])("product", [dataid], **how)
    return result


def test_the_table_of_the_program_is_the_one_that_is_tested() -> None:
    for verb in METHODS:
        assert set(VERBS[verb].becomes) == set(BECOMES[verb]), verb


def test_only_one_module_writes_statuses() -> None:
    writing = ("chunks_put", "chunks_announce", "chunks_forget", "claim_take", "end_run", "give_back")
    engine = Path(opendataflow.store.__file__).parent
    writers = {
        path.name
        for path in engine.rglob("*.py")
        for query in writing
        if f'"{query}' in path.read_text(encoding="utf-8")
    }
    assert writers == {"transition.py"}


def test_a_verb_on_several_datasets_changes_all_of_them_or_none(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    claim_one(store, "make")
    dumped = dump(store)
    with pytest.raises(Locked):
        store.steer("hold", [("raw", "1"), ("product", "2")])
    assert dump(store) == dumped
    changed = store.steer("hold", [("raw", "1"), ("product", "1")])
    assert {change[:2] for change in changed} == {("raw", "1"), ("product", "1")}


def test_a_plan_that_differs_from_its_preview_is_refused_inside_the_transaction(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    seen = plan_digest(store.hold("raw", ["1"], dry_run=True))
    store.fail_chunks("raw", ["1"])
    dumped = dump(store)
    with pytest.raises(BadTransition, match="changed since the preview"):
        store.hold("raw", ["1"], seen=seen)
    assert dump(store) == dumped
    store.hold("raw", ["1"], seen=plan_digest(store.hold("raw", ["1"], dry_run=True)))
    assert status(store, "raw", "1") == "HOLD"


@pytest.mark.parametrize(("verb", "before"), ALLOWED)
def test_an_allowed_transition(store: Store, verb: str, before: str | None) -> None:
    bring_to(store, before)
    after = BECOMES[verb][before]
    would = say(store, verb, dry_run=True)
    assert status(store, "product", "1") == before, "a dry run changes nothing"
    told = say(store, verb, why="because")
    assert status(store, "product", "1") == after
    assert told == would == ([] if before == after else [("product", "1", before, after)])
    if before != after:
        event = store.views.events("product", "1")[-1]
        assert (event.before, event.after, event.who, event.why) == (before, after, "tester", "because")
    can_read = [claim.dataid for claim in store.claim("use")]
    can_produce = [claim.dataid for claim in store.claim("make")]
    assert can_read == (["1"] if after == "READY" else [])
    assert can_produce == (["1"] if after in (None, "RESUBMIT") else [])


@pytest.mark.parametrize(("verb", "before"), REFUSED)
def test_a_refused_transition_writes_nothing(store: Store, verb: str, before: str | None) -> None:
    bring_to(store, before)
    dumped = dump(store)
    with pytest.raises(Locked if before == "RUNNING" else BadTransition):
        say(store, verb)
    assert dump(store) == dumped


@pytest.mark.parametrize("verb", METHODS)
def test_several_chunks_change_together_or_not_at_all(store: Store, verb: str) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    first, _ = store.claim("make", n=2)
    store.commit(first)
    if verb == "release":
        store.hold("product", ["1"])
    dumped = dump(store)
    with pytest.raises(Locked):
        getattr(store, METHODS[verb])("product", ["1", "2"])
    assert dump(store) == dumped


@pytest.mark.parametrize(
    ("verb", "after"),
    [("resubmit", "RESUBMIT"), ("hold", "HOLD"), ("release", "FAILED"), ("fail", "FAILED"), ("forget", None)],
)
def test_force_takes_a_chunk_away_from_its_run(store: Store, verb: str, after: str | None) -> None:
    bring_to(store, "RUNNING")
    assert say(store, verb, force=True) == [("product", "1", "RUNNING", after)]
    assert status(store, "product", "1") == after
    assert store.views.running() == []
    assert store.views.runs(jobid="make")[0].status == "LOST"


@pytest.mark.parametrize("word", ["READY", "FAILED", "RESUBMIT"])
def test_release_gives_back_what_the_chunk_was(store: Store, word: str) -> None:
    bring_to(store, word)
    store.hold("product", ["1"])
    store.hold("product", ["1"])
    store.release("product", ["1"])
    assert status(store, "product", "1") == word


@pytest.mark.parametrize("word", ["READY", "FAILED", "RESUBMIT"])
@pytest.mark.parametrize("words", [["PENDING"], ["HOLD", "PENDING"], ["PENDING", "HOLD"]])
def test_release_gives_back_what_it_was_before_a_person_typed_it(store: Store, word: str, words: list[str]) -> None:
    bring_to(store, word)
    for each in words:
        change(store, "product", "1", each)
    store.release("product", ["1"])
    assert status(store, "product", "1") == word


def test_a_chunk_that_is_pending_and_then_held_is_not_forgotten_by_release(store: Store) -> None:
    bring_to(store, "READY")
    change(store, "product", "1", "PENDING")
    store.hold("product", ["1"])
    store.release("product", ["1"])
    assert status(store, "product", "1") == "READY"


def test_a_chunk_that_was_nothing_is_nothing_again_after_release(store: Store) -> None:
    bring_to(store, None)
    store.hold("product", ["1"])
    assert store.claim("make") == []
    store.release("product", ["1"])
    assert status(store, "product", "1") is None
    produce(store, "make", "1")


def test_a_released_chunk_that_ran_is_failed(store: Store) -> None:
    bring_to(store, "RUNNING")
    change(store, "product", "1", "HOLD")
    store.release("product", ["1"])
    assert status(store, "product", "1") == "FAILED"


def test_forget_lets_the_inputs_be_consumed_again(store: Store) -> None:
    bring_to(store, "READY")
    assert in_status(store, "raw", "1", "make") == "DONE"
    store.forget("product", ["1"])
    assert in_status(store, "raw", "1", "make") is None
    assert produce(store, "make", "1").epoch == 2
    assert kinds(store, "product", "1") == ["claimed", "published", "forgotten", "claimed", "published"]


def test_forget_of_one_of_two_outputs_forgets_both(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "a", "b")], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    produce(store, "split", "1")
    store.forget("a", ["1"])
    assert (status(store, "a", "1"), status(store, "b", "1")) == (None, None)
    produce(store, "split", "1")


def test_a_chunk_that_no_job_produces_can_be_steered_too(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.hold("raw", ["1"])
    assert store.claim("make") == []
    store.release("raw", ["1"])
    store.fail_chunks("raw", ["1"])
    assert store.claim("make") == []
    store.announce("raw", ["1"])
    produce(store, "make", "1")


def test_a_fail_by_a_person_is_no_try_of_the_job(store: Store) -> None:
    chain(store)
    put(store, "product", "1", "READY")
    store.fail_chunks("product", ["1"], why="the rows are those of last year")
    chunk = store.views.chunk("product", "1")
    assert chunk is not None
    assert (chunk.status, chunk.tries) == ("FAILED", 0)


def test_what_never_existed_is_not_waited_for(store: Store) -> None:
    chain(store)
    store.hold("product", ["7"])
    store.release("product", ["7"])
    assert store.views.candidate_counts() == {}
    store.hold("product", ["8"])
    store.forget("product", ["8"])
    assert store.views.candidate_counts() == {}
    store.announce("raw", ["7"])
    assert claim_one(store, "make").dataid == "7"


@pytest.mark.parametrize("verb", ["claim", "claim by force"])
@pytest.mark.parametrize("before", STATUSES)
def test_a_claim_takes_what_the_table_says(store: Store, verb: str, before: str | None) -> None:
    bring_to(store, before)
    claims = store.claim("make", dataid="1", force=verb == "claim by force")
    assert [claim.dataid for claim in claims] == (["1"] if before in VERBS[verb].becomes else [])


@pytest.mark.parametrize("before", [None, "RESUBMIT"])
def test_a_claim_that_is_given_back_leaves_what_was_there(store: Store, before: str | None) -> None:
    bring_to(store, before)
    store.give_back(claim_one(store, "make"), None, "the drain ends")
    assert status(store, "product", "1") == before


def test_a_recalled_product_is_released_as_a_whole(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "a", "b")], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    produce(store, "split", "1")
    store.recall("a", "1", why="bad", hold=True)
    assert (status(store, "a", "1"), status(store, "b", "1")) == ("HOLD", "HOLD")
    store.release("a", ["1"])
    assert (status(store, "a", "1"), status(store, "b", "1")) == ("RESUBMIT", "RESUBMIT")
    assert claim_one(store, "split").dataid == "1"


def test_a_recalled_version_that_is_typed_ready_is_made_again_with_all_that_its_run_wrote(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "a", "b")], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    produce(store, "split", "1")
    store.recall("a", "1", why="bad", hold=True)
    store.dml("update job_status set status = 'READY'")
    assert claim_one(store, "split").dataid == "1"


def test_only_the_verbs_of_operators_choose_chunks(store: Store) -> None:
    bring_to(store, "RESUBMIT")
    with pytest.raises(UsageError):
        store.steer("keep", [("product", "1")])
    assert status(store, "product", "1") == "RESUBMIT"
