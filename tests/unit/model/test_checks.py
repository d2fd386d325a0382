import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition
from opendataflow.model.definitions.check_kinds import KINDS
from opendataflow.model.definitions.checks import TRAILING, Check, checks_to_data, parse_checks

EVERY_CHECK = """
rows = { min = 1, max = 100 }
schema = "carrier string, dep_delay double"
not_null = ["carrier", "origin"]
unique = [["a", "b"], ["c"]]
accepted = { carrier = ["AA", "UA"], month = [1, 2] }
range = { dep_delay = { min = -100, max = 3000 }, day = { min = 2013-01-01 } }
regex = { tailnum = "N.*" }
span = true
fresh = { column = "ts", max_age = "36h" }
references = { carrier = "airlines.v2.carrier" }
conserves = "flights_raw"
sql = ["dep_delay < 3000", "origin <> dest"]
"""


def declared(text: str) -> tuple[Check, ...]:
    return parse_checks(tomllib.loads(text), "dataset.flights.checks")


def test_every_kind_of_check_can_be_declared():
    checks = declared(EVERY_CHECK)
    assert {check.kind for check in checks} == set(KINDS)
    assert all(check.severity == "error" for check in checks)
    params: dict[str, list[object]] = {}
    for check in checks:
        params.setdefault(check.kind, []).append(check.params)
    assert params == {
        "schema": [{"schema": "carrier string, dep_delay double"}],
        "rows": [{"min": 1, "max": 100}],
        "not_null": [{"columns": ["carrier", "origin"]}],
        "unique": [{"columns": ["a", "b"]}, {"columns": ["c"]}],
        "accepted": [{"column": "carrier", "values": ["AA", "UA"]}, {"column": "month", "values": [1, 2]}],
        "range": [{"column": "day", "min": "2013-01-01"}, {"column": "dep_delay", "min": -100, "max": 3000}],
        "regex": [{"column": "tailnum", "pattern": "N.*"}],
        "span": [{}],
        "fresh": [{"column": "ts", "max_age": "36h"}],
        "references": [{"column": "carrier", "dataset": "airlines.v2", "its_column": "carrier"}],
        "conserves": [{"dataset": "flights_raw"}],
        "sql": [
            {"name": "dep_delay < 3000", "expression": "dep_delay < 3000"},
            {"name": "origin <> dest", "expression": "origin <> dest"},
        ],
    }


@pytest.mark.parametrize(
    "text",
    [
        EVERY_CHECK,
        "",
        "span = false",
        "unique = ['id']",
        "rows = { within_percent = 20 }",
        "rows = { within_percent = 20, trailing = 14 }",
        "rows = { min = 1, severity = 'warn' }",
        "not_null = { value = ['carrier'], severity = 'warn' }",
        "not_null = { value = ['carrier'] }",
        "schema = { value = 'a int', severity = 'warn' }",
        "span = { value = true, severity = 'warn' }",
        "unique = { value = [['a'], ['b']], severity = 'warn' }",
        "accepted = { carrier = ['AA'], severity = 'warn' }",
        "range = { delay = { min = 1 }, severity = 'warn' }",
        "range = { value = { min = 1 } }",
        "range = { value = { min = 1 }, severity = 'warn' }",
        "range = { value = { value = { min = 1 } }, severity = 'warn' }",
        "regex = { value = { severity = 'a' }, severity = 'warn' }",
        "regex = { value = 'a' }",
        "fresh = { column = 'ts', max_age = '2h', severity = 'warn' }",
        "references = { a = 'd.c', severity = 'warn' }",
        "conserves = { value = 'raw', severity = 'warn' }",
        "conserves = ['raw', 'extra']",
        "sql = 'a > 1'",
        "sql = { short = 'a > 1', other = 'b > 1', severity = 'warn' }",
        "sql = { value = ['a > 1'], severity = 'warn' }",
        "not_null = [{ value = ['a'], severity = 'warn' }, { value = ['b'] }]",
        "rows = [{ min = 1 }, { within_percent = 20, severity = 'warn' }]",
        "range = [{ a = { min = 1 } }, { a = { max = 9 }, severity = 'warn' }]",
    ],
)
def test_checks_survive_the_round_trip(text):
    checks = declared(text)
    data = checks_to_data(checks)
    assert parse_checks(json.loads(json.dumps(data)), "") == checks
    # a database may keep the keys of JSON in another order
    assert parse_checks(json.loads(json.dumps(data, sort_keys=True)), "") == checks


@given(
    st.lists(
        st.builds(
            Check,
            st.just("not_null"),
            st.builds(lambda columns: {"columns": columns}, st.lists(st.sampled_from("abc"), min_size=1, unique=True)),
            st.sampled_from(["error", "warn"]),
        )
        | st.builds(
            Check,
            st.just("range"),
            st.builds(
                lambda column, low: {"column": column, "min": low}, st.sampled_from(["a", "value"]), st.integers()
            ),
            st.sampled_from(["error", "warn"]),
        )
        | st.builds(
            Check,
            st.just("sql"),
            st.builds(lambda name: {"name": name, "expression": "x"}, st.sampled_from(["a", "x", "value", "severity"])),
            st.sampled_from(["error", "warn"]),
        )
        | st.builds(Check, st.just("span"), st.just({}), st.sampled_from(["error", "warn"])),
        max_size=6,
    )
)
def test_any_checks_survive_the_round_trip(checks):
    back = parse_checks(checks_to_data(checks), "")
    assert sorted(map(repr, back)) == sorted(map(repr, checks))
    assert parse_checks(checks_to_data(back), "") == back


def test_severity_is_taken_from_the_table():
    assert [check.severity for check in declared("not_null = { value = ['a'], severity = 'warn' }")] == ["warn"]
    assert [check.severity for check in declared("rows = { min = 1, severity = 'warn' }")] == ["warn"]
    both = declared("not_null = [{ value = ['a'], severity = 'warn' }, { value = ['b'] }]")
    assert [(check.params["columns"], check.severity) for check in both] == [(["a"], "warn"), (["b"], "error")]


def test_a_column_may_be_called_value():
    assert declared("range = { value = { min = 1 } }")[0].params == {"column": "value", "min": 1}
    assert declared("accepted = { value = [1], severity = 'warn' }")[0].params == {"column": "value", "values": [1]}


def test_a_percentage_of_the_trailing_median_has_a_default_length():
    assert declared("rows = { within_percent = 20 }")[0].params == {"within_percent": 20, "trailing": TRAILING}


def test_equal_declarations_in_another_order_are_equal():
    assert declared("span = true\nrows = { min = 1 }") == declared("rows = { min = 1 }\nspan = true")
    assert declared("regex = { a = 'x', b = 'y' }") == declared("regex = { b = 'y', a = 'x' }")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("row = { min = 1 }", "row"),
        ("rows = 1", "rows"),
        ("rows = {}", "rows"),
        ("rows = { minimum = 1 }", "minimum"),
        ("rows = { min = -1 }", "min"),
        ("rows = { min = 1.5 }", "min"),
        ("rows = { min = true }", "min"),
        ("rows = { min = 2, max = 1 }", "max"),
        ("rows = { trailing = 7 }", "rows"),
        ("rows = { min = 1, trailing = 7 }", "trailing"),
        ("rows = { within_percent = 0 }", "within_percent"),
        ("schema = 1", "schema"),
        ("schema = ''", "schema"),
        ("not_null = 'carrier'", "not_null"),
        ("not_null = []", "not_null"),
        ("not_null = ['a', 'a']", "columns"),
        ("not_null = [1]", "not_null"),
        ("unique = [[]]", "unique"),
        ("unique = ['a', ['b']]", "unique"),
        ("accepted = { carrier = 'AA' }", "accepted"),
        ("accepted = { carrier = [] }", "values"),
        ("accepted = { carrier = [['AA']] }", "values"),
        ("range = { a = {} }", "range"),
        ("range = { a = { min = 5, max = 1 } }", "min"),
        ("range = { a = { min = 5, max = 'x' } }", "min"),
        ("range = { a = { minimum = 5 } }", "minimum"),
        ("range = { a = { min = nan } }", "min"),
        ("range = { a = 5 }", "range"),
        ("regex = { a = 5 }", "regex"),
        ("regex = { a = '' }", "pattern"),
        ("span = 'yes'", "span"),
        ("fresh = { column = 'ts' }", "max_age"),
        ("fresh = { column = 'ts', max_age = '36 parsecs' }", "max_age"),
        ("fresh = { column = 'ts', max_age = '0h' }", "max_age"),
        ("references = { carrier = 'airlines' }", "dataset"),
        ("references = { carrier = 'air lines.x' }", "dataset"),
        ("conserves = 'a/b'", "dataset"),
        ("conserves = 7", "conserves"),
        ("sql = [1]", "sql"),
        ("sql = ['']", "name"),
        ("sql = { a = 1 }", "sql"),
        ("not_null = { value = ['a'], severity = 'fatal' }", "fatal"),
        ("regex = { severity = 'N.*' }", "N.*"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused_with_its_key(text, key):
    with pytest.raises(BadDefinition) as problem:
        declared(text)
    assert problem.value.message.startswith("dataset.flights.checks")
    assert key in problem.value.message


def test_an_unknown_check_lists_the_known_ones():
    with pytest.raises(BadDefinition) as problem:
        declared("row = { min = 1 }")
    assert all(kind in problem.value.hint for kind in KINDS)


def test_checks_are_a_table():
    with pytest.raises(BadDefinition):
        parse_checks(["rows"], "dataset.flights.checks")  # type: ignore[arg-type]


def test_the_label_of_a_check_says_what_it_is_about():
    labels = [check.label for check in declared(EVERY_CHECK)]
    assert "not_null(carrier, origin)" in labels
    assert "range(dep_delay)" in labels
    assert "rows" in labels
    assert "sql(dep_delay < 3000)" in labels


def test_a_check_is_hashable():
    assert len({*declared(EVERY_CHECK), *declared(EVERY_CHECK)}) == len(declared(EVERY_CHECK))
