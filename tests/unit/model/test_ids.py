import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadId
from opendataflow.model.definitions.ids import ID_PATTERN, check_id


@given(st.from_regex(ID_PATTERN, fullmatch=True))
def test_every_id_of_the_grammar_is_returned_as_it_is(value):
    assert check_id("dataset", value) == value


@pytest.mark.parametrize(
    "value",
    ["", "a\n", "\na", ".hidden", "..", "-rf", "_x", "a/b", "a b", "a;b", "é", "a" * 129, "٣", None, 7, b"a", ["a"]],
)
def test_an_id_outside_the_grammar_is_refused(value):
    with pytest.raises(BadId) as problem:
        check_id("job", value)
    assert "job" in problem.value.message
    assert "128" in problem.value.hint


def test_a_refused_id_is_shown_shortened():
    with pytest.raises(BadId) as problem:
        check_id("dataset", "x/" * 5000)
    assert len(problem.value.message) < 120
    assert "'x/x/" in problem.value.message


@given(st.text())
def test_what_is_accepted_is_exactly_the_grammar(value):
    if re.fullmatch(ID_PATTERN, value):
        check_id("pool", value)
    else:
        with pytest.raises(BadId):
            check_id("pool", value)
