from datetime import date, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDataid, BadDefinition, BadId
from opendataflow.model.definitions.dataid import TYPES
from opendataflow.model.definitions.ids import ID_PATTERN
from opendataflow.model.definitions.partition import (
    Partition,
    bounds,
    check_dataid,
    checked_positions,
    comparable,
    dataids,
    from_ordinal,
    ordinal,
    sort_key,
    span,
)

ORDINAL_TYPES = [name for name, dataid_type in TYPES.items() if dataid_type.is_ordinal]
IDS = st.from_regex(ID_PATTERN, fullmatch=True)

CANONICAL = {
    "day": ["2025-11-12", "0001-01-01", "9999-12-31", "2024-02-29"],
    "hour": ["2025-11-12T05", "2025-11-12T00", "2025-11-12T23"],
    "month": ["2025-11", "2025-01", "2025-12"],
    "year": ["2025", "0001", "9999"],
    "number": ["0", "7", "10", "9" * 18],
    "range": ["1", "10000"],
    "text": ["a", "2025-11-12", "eu=west.1", "01", "ALL"],
}
MALFORMED = {
    "day": [
        "20250101",
        "2025-W01-1",
        "2025-1-1",
        "2025-13-01",
        "2025-02-29",
        "0000-01-01",
        "2025-11-12T05",
        "2025-11",
        "x",
    ],
    "hour": ["2025-11-12", "2025-11-12T24", "2025-11-12T5", "2025-11-12-05", "2025-11-12T05T", "20251112T05"],
    "month": ["2025-00", "2025-13", "2025-1", "202511", "2025-11-12", "0000-01"],
    "year": ["0000", "25", "20250", "abcd", "2025-"],
    "number": ["007", "00", "1" + "0" * 18, "1.0", "1e3", "x"],
    "range": ["0", "01", "x"],
}


@st.composite
def typed_dataids(draw: st.DrawFn, types: list[str] = ORDINAL_TYPES) -> tuple[Partition, str]:
    name = draw(st.sampled_from(types))
    dataid_type = TYPES[name]
    return Partition(name), from_ordinal(Partition(name), draw(st.integers(dataid_type.first, dataid_type.last)))


@st.composite
def pairs_of_typed_dataids(draw: st.DrawFn) -> tuple[Partition, str, str]:
    partition, one = draw(typed_dataids())
    last = TYPES[partition.type].last
    near = st.integers(ordinal(partition, one), min(ordinal(partition, one) + 40, last))
    anywhere = st.integers(TYPES[partition.type].first, last)
    return partition, one, from_ordinal(partition, draw(near | anywhere))


@pytest.mark.parametrize(("name", "dataid"), [(name, dataid) for name, ids in CANONICAL.items() for dataid in ids])
def test_a_canonical_dataid_is_accepted(name, dataid):
    assert check_dataid(Partition(name), dataid) == dataid


@pytest.mark.parametrize(("name", "dataid"), [(name, dataid) for name, ids in MALFORMED.items() for dataid in ids])
def test_any_other_spelling_is_refused(name, dataid):
    for ask in (check_dataid, ordinal, sort_key):
        with pytest.raises(BadDataid) as problem:
            ask(Partition(name), dataid)
        assert dataid[:20] in problem.value.message
        assert name in problem.value.message


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("dataid", ["2025-11-12\n", "../etc", "", "a/b", None, 7])
def test_a_dataid_outside_the_grammar_is_a_bad_id_for_every_type(name, dataid):
    with pytest.raises(BadId):
        check_dataid(Partition(name), dataid)


@pytest.mark.parametrize(
    ("partition", "dataid"), [("day", "2026-11-31"), ("month", "2026-13"), ("hour", "2026-02-29T05"), ("year", "0000")]
)
def test_what_is_written_well_and_no_date_of_the_calendar_is_told_so(partition: str, dataid: str):
    with pytest.raises(BadDataid) as problem:
        check_dataid(Partition(partition), dataid)
    assert f"the calendar has no such {partition}" in problem.value.message
    assert "has the form" not in problem.value.hint


def test_a_refused_dataid_names_its_dataset():
    with pytest.raises(BadDataid) as problem:
        check_dataid(Partition("day"), "2025-13-01", "flights")
    assert "flights" in problem.value.message
    assert "2025-11-12" in problem.value.hint


@pytest.mark.parametrize(
    ("partition", "inside", "outside"),
    [
        (Partition("day", start="2013-01-01", end="2013-12-31"), "2013-12-31", "2014-01-01"),
        (Partition("day", start="2013-01-01"), "2013-01-01", "2012-12-31"),
        (Partition("number", start="9"), "10", "8"),
        (Partition("number", end="10"), "9", "11"),
        (Partition("range", count=10), "10", "11"),
        (Partition("range", count=10, start="3"), "3", "2"),
    ],
)
def test_a_dataid_outside_the_bounds_is_refused(partition, inside, outside):
    assert check_dataid(partition, inside) == inside
    with pytest.raises(BadDataid) as problem:
        check_dataid(partition, outside, "flights")
    assert outside in problem.value.message
    assert "flights" in problem.value.message


@given(typed_dataids())
def test_ordinal_and_from_ordinal_are_inverse(typed):
    partition, dataid = typed
    assert from_ordinal(partition, ordinal(partition, dataid)) == dataid
    assert check_dataid(partition, dataid) == dataid


@given(pairs_of_typed_dataids())
def test_the_order_of_sort_keys_is_the_order_of_ordinals(pair):
    partition, one, other = pair
    keys = sort_key(partition, one), sort_key(partition, other)
    assert all(key.isascii() for key in keys)
    assert len(keys[0]) == len(keys[1])
    assert (keys[0] < keys[1]) == (ordinal(partition, one) < ordinal(partition, other))
    assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize("name", ["number", "range", "text"])
def test_nine_comes_before_ten(name):
    assert sort_key(Partition(name), "9") < sort_key(Partition(name), "10")


@pytest.mark.parametrize(
    "in_order",
    [
        ["1", "2", "9", "10", "11", "100"],
        ["1.0", "2.0", "10.0"],
        ["2025-09-30", "2025-10-01", "2025-11-12", "2026-01-01"],
        ["part-9", "part-10", "part-10-a", "part-10a", "part-100"],
        ["a", "a1", "a2", "a10", "b", "b1"],
        ["v1.2.9", "v1.2.10", "v1.10.0"],
        ["0", "00", "1", "01x", "2"],
        ["99999999", "999999999", "9999999999", "1" + "0" * 40],
        ["A", "Z", "a"],
    ],
)
def test_text_comes_in_natural_order(in_order):
    backwards = in_order[::-1]
    assert sorted(backwards, key=lambda dataid: sort_key(Partition(), dataid)) == in_order


def natural(dataid: str) -> tuple[list[tuple[int, int]], str]:
    """The order written naively: characters, and numbers as numbers where digits would be."""
    tokens: list[tuple[int, int]] = []
    digits = ""
    for character in [*dataid, ""]:
        if character.isdigit():
            digits += character
            continue
        if digits:
            tokens.append((ord("0"), int(digits)))
            digits = ""
        if character:
            tokens.append((ord(character), 0))
    return tokens, dataid


@given(st.lists(IDS, min_size=2, max_size=8, unique=True))
def test_natural_order_is_total_and_no_two_keys_are_equal(some):
    keys = {dataid: sort_key(Partition(), dataid) for dataid in some}
    assert len(set(keys.values())) == len(some)
    assert all(key.isascii() for key in keys.values())
    assert sorted(some, key=keys.__getitem__) == sorted(some, key=natural)


@given(st.text(alphabet="019.-a", min_size=1, max_size=8), st.text(alphabet="019.-a", min_size=1, max_size=8))
def test_natural_order_holds_for_digits_zeros_and_dots(one, other):
    assert (sort_key(Partition(), one) < sort_key(Partition(), other)) == (natural(one) < natural(other))


@given(st.text())
def test_the_sort_key_of_text_never_raises(anything):
    assert sort_key(Partition(), anything).isascii()


@pytest.mark.parametrize(
    ("name", "dataid", "after"),
    [
        ("day", "2024-02-28", "2024-02-29"),
        ("day", "2024-12-31", "2025-01-01"),
        ("hour", "2024-12-31T23", "2025-01-01T00"),
        ("month", "2024-12", "2025-01"),
        ("year", "0999", "1000"),
        ("number", "9", "10"),
        ("range", "99", "100"),
    ],
)
def test_the_ordinals_of_neighbours_are_one_apart(name, dataid, after):
    assert ordinal(Partition(name), after) == ordinal(Partition(name), dataid) + 1


@pytest.mark.parametrize(
    ("partition", "last"),
    [
        (Partition("day"), "9999-12-31"),
        (Partition("day", end="2013-12-31"), "2013-12-31"),
        (Partition("range", count=4), "4"),
        (Partition("number"), "9" * 18),
    ],
)
def test_the_bounds_end_with_the_last(partition, last):
    assert bounds(partition)[1] == ordinal(partition, last)


@pytest.mark.parametrize(
    ("partition", "first"),
    [(Partition("day", start="2013-01-01"), "2013-01-01"), (Partition("range"), "1"), (Partition("number"), "0")],
)
def test_the_bounds_begin_with_the_first(partition, first):
    assert bounds(partition)[0] == ordinal(partition, first)


def test_text_has_no_steps():
    with pytest.raises(BadDefinition) as problem:
        ordinal(Partition(), "a")
    assert "text" in problem.value.message


@pytest.mark.parametrize("name", ORDINAL_TYPES)
def test_an_ordinal_that_no_dataid_has_is_refused(name):
    for n in (TYPES[name].first - 1, TYPES[name].last + 1):
        with pytest.raises(BadDataid):
            from_ordinal(Partition(name), n)


@given(pairs_of_typed_dataids())
def test_from_to_names_every_step_once_and_in_order(pair):
    partition, one, other = pair
    low, high = ordinal(partition, one), ordinal(partition, other)
    if low > high:
        with pytest.raises(BadDataid):
            dataids(partition, one, other)
    elif high - low <= 100:
        assert list(dataids(partition, one, other)) == [from_ordinal(partition, n) for n in range(low, high + 1)]


def test_from_to_of_text_names_one_dataid_only():
    assert list(dataids(Partition(), "a", "a")) == ["a"]
    with pytest.raises(BadDataid):
        dataids(Partition(), "a", "b")


def test_from_to_stays_inside_the_bounds():
    with pytest.raises(BadDataid):
        dataids(Partition("day", end="2013-12-31"), "2013-12-30", "2014-01-01")


def test_a_huge_from_to_costs_nothing_until_it_is_used():
    assert next(dataids(Partition("number"), "0", "9" * 18)) == "0"


@pytest.mark.parametrize(
    ("partition", "dataid", "expected"),
    [
        (Partition("day"), "2013-01-31", ("2013-01-31T00:00:00", "2013-02-01T00:00:00")),
        (Partition("hour"), "2013-01-31T23", ("2013-01-31T23:00:00", "2013-02-01T00:00:00")),
        (Partition("month"), "2013-12", ("2013-12-01T00:00:00", "2014-01-01T00:00:00")),
        (Partition("year"), "2013", ("2013-01-01T00:00:00", "2014-01-01T00:00:00")),
        (Partition("year"), "9999", ("9999-01-01T00:00:00", "9999-12-31T23:59:59.999999")),
        (Partition("number"), "7", ("7", "8")),
        (Partition("text"), "a", None),
        (Partition("range", count=10), "3", None),
        (Partition("range", count=10, lower="0"), "3", None),
        (Partition("range", lower="0", upper="100"), "3", None),
        (Partition("range", count=2, lower="a", upper="z"), "1", None),
        (Partition("range", count=4, lower="0", upper="10"), "1", ("0", "2")),
        (Partition("range", count=4, lower="0", upper="10"), "4", ("7", "10")),
        (Partition("range", count=4, lower="-10", upper="10"), "1", ("-10", "-5")),
        (Partition("range", count=2, lower="2013-01-01", upper="2013-01-11"), "2", ("2013-01-06", "2013-01-11")),
        (
            Partition("range", count=2, lower="2013-01-01T00:00:00", upper="2013-01-02T00:00:00"),
            "1",
            ("2013-01-01T00:00:00", "2013-01-01T12:00:00"),
        ),
    ],
)
def test_the_span_of_a_chunk(partition, dataid, expected):
    assert span(partition, dataid) == expected


@given(st.integers(-(10**20), 10**20), st.integers(1, 10**20), st.integers(1, 40))
def test_the_shards_of_a_range_cover_it_without_gap_or_overlap(lower, width, count):
    partition = Partition("range", count=count, lower=str(lower), upper=str(lower + width))
    spans = [span(partition, str(shard)) for shard in range(1, count + 1)]
    edges = [(int(one[0]), int(one[1])) for one in spans if one]
    assert edges[0][0] == lower
    assert edges[-1][1] == lower + width
    assert all(one[1] == other[0] for one, other in pairwise(edges))
    sizes = [high - low for low, high in edges]
    assert max(sizes) - min(sizes) <= 1


def test_a_shard_beyond_the_count_has_no_span():
    with pytest.raises(BadDataid):
        span(Partition("range", count=4, lower="0", upper="10"), "5")


@given(typed_dataids(["day", "hour", "month", "year"]))
def test_the_spans_of_neighbours_touch(typed):
    partition, dataid = typed
    if ordinal(partition, dataid) < TYPES[partition.type].last:
        here, there = span(partition, dataid), span(partition, from_ordinal(partition, ordinal(partition, dataid) + 1))
        assert here is not None
        assert there is not None
        assert here[1] == there[0]
        assert here[0] < here[1]
        assert datetime.fromisoformat(here[0]) < datetime.fromisoformat(here[1])


@pytest.mark.parametrize("one", TYPES)
@pytest.mark.parametrize("other", TYPES)
def test_time_types_are_comparable_and_so_is_each_type_with_itself(one, other):
    time = {"day", "hour", "month", "year"}
    assert comparable(Partition(one), Partition(other)) == (one == other or {one, other} <= time)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"type": "week"}, "week"),
        ({"type": None}, "None"),
        ({"type": "day", "count": 3}, "count"),
        ({"type": "range", "count": 0}, "0"),
        ({"type": "range", "count": True}, "True"),
        ({"type": "range", "count": "10"}, "'10'"),
        ({"type": "range", "count": 3, "start": "4"}, "4"),
        ({"type": "text", "start": "a"}, "start"),
        ({"type": "text", "end": "a"}, "end"),
        ({"type": "day", "start": "2013"}, "2013"),
        ({"type": "day", "start": "2013-02-01", "end": "2013-01-01"}, "2013-02-01"),
        ({"type": "number", "start": "10", "end": "9"}, "10"),
        ({"type": "day", "lower": "1", "upper": "2"}, "lower"),
        ({"type": "range", "lower": "10", "upper": "10"}, "10"),
        ({"type": "range", "lower": "2014-01-01", "upper": "2013-01-01"}, "2014-01-01"),
        ({"type": "day", "column": ""}, "column"),
        ({"type": "day", "column": 7}, "7"),
    ],
)
def test_a_partition_that_makes_no_sense_is_refused(values, word):
    with pytest.raises(BadDefinition) as problem:
        Partition(**values)
    assert word in problem.value.message


def test_an_unknown_type_lists_the_known_ones():
    with pytest.raises(BadDefinition) as problem:
        Partition("week")
    assert all(name in problem.value.hint for name in TYPES)


def test_a_partition_is_declared_as_a_word_or_a_table():
    assert Partition.from_data("day") == Partition("day")
    assert Partition.from_data({"type": "day", "column": "flight_date"}) == Partition("day", "flight_date")
    assert Partition.from_data({}) == Partition()


def test_toml_dates_and_numbers_are_understood():
    assert Partition.from_data({"type": "day", "start": date(2013, 1, 1)}).start == "2013-01-01"
    assert Partition.from_data({"type": "hour", "start": datetime(2013, 1, 1, 5)}).start == "2013-01-01T05"
    assert Partition.from_data({"type": "year", "start": 2013}).start == "2013"
    assert Partition.from_data({"type": "range", "count": 2, "lower": -5, "upper": 5}).lower == "-5"


@pytest.mark.parametrize("data", [{"type": "day", "colum": "x"}, {"type": "week"}, 7, None, {"type": ["day"]}])
def test_a_wrong_declaration_names_its_key(data):
    with pytest.raises(BadDefinition) as problem:
        Partition.from_data(data, "dataset.flights.partition")
    assert problem.value.message.startswith("dataset.flights.partition: ")
    if isinstance(data, dict) and "colum" in data:
        assert "colum" in problem.value.message


@pytest.mark.parametrize(
    "partition",
    [
        Partition(),
        Partition("day", "flight_date", start="2013-01-01", end="2013-12-31"),
        Partition("range", "id", count=10, lower="0", upper="100", start="2", end="9"),
        Partition("number", start="0"),
    ],
)
def test_a_partition_survives_the_round_trip(partition):
    assert Partition.from_data(partition.to_data()) == partition
    assert None not in partition.to_data().values()


def test_many_are_checked_as_each_of_them() -> None:
    days = Partition("day", start="2025-01-01")
    many = ["2025-01-02", "2025-01-01", "2025-01-02"]
    assert checked_positions(days, many) == {dataid: sort_key(days, dataid) for dataid in many}
    for bad in ("2024-12-31", "2025-02-30", "no", "", None, [1]):
        with pytest.raises((BadDataid, BadId)) as one:
            check_dataid(days, bad, "raw")  # type: ignore[arg-type]
        with pytest.raises(type(one.value)) as among_many:
            checked_positions(days, [*many, bad], "raw")  # type: ignore[list-item]
        assert str(among_many.value) == str(one.value)
