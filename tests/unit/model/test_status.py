import pytest

from opendataflow.errors import UnknownStatus
from opendataflow.model.decision.status import (
    DONE,
    FAILED,
    HOLD,
    IN,
    IN_LOCKS,
    OUT,
    OUT_LOCKS,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    canonical,
    may_consume,
    may_produce,
    may_read,
)

# status, others may read, may be produced again
OUT_TABLE = [
    (None, False, True),
    (RUNNING, False, False),
    (READY, True, False),
    (FAILED, False, False),
    (RESUBMIT, False, True),
    (HOLD, False, False),
    (PENDING, False, False),
    ("SOMETHING_ELSE", False, False),
    ("ready", False, False),
    ("", False, False),
]

# status, same job may take it again, the same once its output says RESUBMIT
IN_TABLE = [
    (None, True, True),
    (RUNNING, False, False),
    (DONE, False, True),
    (FAILED, True, True),
    ("SOMETHING_ELSE", False, False),
]


@pytest.mark.parametrize(("status", "read", "produce"), OUT_TABLE)
def test_what_an_out_row_allows(status, read, produce):
    assert may_read(status) is read
    assert may_produce(status) is produce


@pytest.mark.parametrize(("status", "take", "take_after_resubmit"), IN_TABLE)
@pytest.mark.parametrize("out_status", [None, RUNNING, READY, FAILED, RESUBMIT, HOLD, PENDING, "SOMETHING_ELSE"])
def test_what_an_in_row_allows_its_job(status, take, take_after_resubmit, out_status):
    assert may_consume(status, out_status) is (take_after_resubmit if out_status == RESUBMIT else take)


def test_both_tables_are_tested_row_by_row():
    assert set(OUT_LOCKS) <= {row[0] for row in OUT_TABLE}
    assert set(IN_LOCKS) <= {row[0] for row in IN_TABLE}
    assert all(lock.meaning for lock in OUT_LOCKS.values())
    assert all(lock.meaning for lock in IN_LOCKS.values())


@pytest.mark.parametrize(
    ("word", "locktype", "stored"),
    [
        ("READY", OUT, READY),
        ("ready", OUT, READY),
        ("COMPLETE", OUT, READY),
        ("Complete", OUT, READY),
        ("ERROR", OUT, FAILED),
        ("RERUN", OUT, RESUBMIT),
        ("hold", OUT, HOLD),
        ("PENDING", OUT, PENDING),
        ("RUNNING", OUT, RUNNING),
        ("RUNNING", IN, RUNNING),
        ("done", IN, DONE),
        ("ERROR", IN, FAILED),
        ("FAILED", IN, FAILED),
    ],
)
def test_a_status_is_stored_in_its_canonical_word(word, locktype, stored):
    assert canonical(word, locktype) == stored


def test_a_status_is_one_of_an_out_row_unless_said():
    assert canonical("complete") == READY


@pytest.mark.parametrize(
    ("word", "locktype", "known"),
    [
        ("REDY", OUT, OUT_LOCKS),
        ("DONE", OUT, OUT_LOCKS),
        ("", OUT, OUT_LOCKS),
        ("READY\n", OUT, OUT_LOCKS),
        ("READY", IN, IN_LOCKS),
        ("COMPLETE", IN, IN_LOCKS),
        ("RERUN", IN, IN_LOCKS),
        (None, OUT, OUT_LOCKS),
    ],
)
def test_an_unknown_status_is_refused_with_the_known_ones(word, locktype, known):
    with pytest.raises(UnknownStatus) as problem:
        canonical(word, locktype)
    assert repr(word) in problem.value.message
    assert locktype in problem.value.message
    assert all(status in problem.value.hint for status in known if status)


def test_an_unknown_locktype_is_refused():
    with pytest.raises(UnknownStatus):
        canonical("READY", "INOUT")
