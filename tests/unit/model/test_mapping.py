import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opendataflow.errors import BadDataid, BadId, BadMapping
from opendataflow.model.definitions.dataid import TYPES
from opendataflow.model.definitions.ids import ID_PATTERN
from opendataflow.model.definitions.mapping import (
    IDENTITY,
    KINDS,
    Mapping,
    check_mapping,
    inputs,
    outputs,
    resolve,
    touches,
)
from opendataflow.model.definitions.partition import (
    Partition,
    bounds,
    check_dataid,
    from_ordinal,
    ordinal,
    sort_key,
    span,
)

DAY, HOUR, MONTH, YEAR = (Partition(name) for name in ("day", "hour", "month", "year"))
NUMBER, RANGE, TEXT = (Partition(name) for name in ("number", "range", "text"))
ORDINAL_TYPES = ["day", "hour", "month", "year", "number", "range"]
FINER = [("hour", "day"), ("hour", "month"), ("hour", "year"), ("day", "month"), ("day", "year"), ("month", "year")]

STATIC = [
    *((kind, name, name) for kind in ("identity", "lag", "window") for name in ORDINAL_TYPES),
    *(("rollup", fine, coarse) for fine, coarse in FINER),
    *(("fan_out", coarse, fine) for fine, coarse in FINER),
]


@st.composite
def static_mappings(draw: st.DrawFn) -> tuple[Mapping, str, str]:
    kind, input_type, output_type = draw(st.sampled_from(STATIC))
    n = draw(st.integers(1, 9)) if KINDS[kind].has_number else 1
    return Mapping(kind, n), input_type, output_type


@st.composite
def partitions(draw: st.DrawFn, name: str, around: int) -> Partition:
    """A partition with or without bounds that holds the dataids around a moment or number."""
    dataid_type = TYPES[name]
    start = end = None
    if draw(st.booleans()):
        start = max(dataid_type.first, around - draw(st.integers(0, 12)))
    if draw(st.booleans()):
        end = min(dataid_type.last, around + draw(st.integers(0, 12)))
    return Partition(
        name,
        start=None if start is None else dataid_type.format(start),
        end=None if end is None else dataid_type.format(end),
    )


@st.composite
def mapped_dataids(draw: st.DrawFn) -> tuple[Mapping, Partition, Partition, str, str]:
    """A fitting mapping with two dataids near one another, each inside its partition's bounds."""
    mapping, input_type, output_type = draw(static_mappings())
    ins, outs = TYPES[input_type], TYPES[output_type]
    centre = draw(
        st.integers(ins.first, ins.last) | st.sampled_from([ins.first, ins.first + 3, ins.last - 3, ins.last])
    )
    if ins is outs:
        counterpart = centre
    else:
        moment = (ins.format(centre) + "0001-01-01T00"[len(ins.format(centre)) :])[: outs.width]
        counterpart = outs.parse(moment)
    near = st.integers(-11, 11)
    input = draw(partitions(input_type, centre))
    output = draw(partitions(output_type, counterpart))
    step_in, step_out = centre + draw(near), counterpart + draw(near)
    assume(bounds(input)[0] <= step_in <= bounds(input)[1])
    assume(bounds(output)[0] <= step_out <= bounds(output)[1])
    return mapping, input, output, from_ordinal(input, step_in), from_ordinal(output, step_out)


@given(mapped_dataids())
def test_needing_and_touching_are_exact_inverses(case):
    mapping, input, output, input_id, output_id = case
    needed = inputs(mapping, input, output, output_id)
    touched = outputs(mapping, input, output, input_id)
    assert (input_id in needed) == (output_id in touched)
    for dataid in {*needed[:3], *needed[-3:]}:
        assert output_id in outputs(mapping, input, output, dataid)
    for dataid in {*touched[:3], *touched[-3:]}:
        assert input_id in inputs(mapping, input, output, dataid)


@given(mapped_dataids())
def test_both_directions_are_in_order_and_inside_the_bounds(case):
    mapping, input, output, input_id, output_id = case
    for partition, some in (
        (input, inputs(mapping, input, output, output_id)),
        (output, outputs(mapping, input, output, input_id)),
    ):
        assert some == sorted(set(some), key=lambda dataid: sort_key(partition, dataid))
        assert all(check_dataid(partition, dataid) for dataid in {*some[:2], *some[-2:]})


@given(mapped_dataids())
def test_only_shared_mappings_let_one_input_belong_to_several_outputs(case):
    mapping, input, output, input_id, _ = case
    if not mapping.is_shared:
        assert len(outputs(mapping, input, output, input_id)) <= 1


@given(mapped_dataids())
def test_a_static_mapping_resolves_to_its_inputs_whatever_is_known(case):
    mapping, input, output, input_id, output_id = case
    assert resolve(mapping, input, output, output_id, []) == inputs(mapping, input, output, output_id)
    touched = outputs(mapping, input, output, input_id)
    assert touches(mapping, input, output, input_id, touched) == touched
    assert touches(mapping, input, output, input_id, []) == []


@given(st.from_regex(ID_PATTERN, fullmatch=True))
def test_identity_of_text_is_itself(dataid):
    assert inputs(IDENTITY, TEXT, TEXT, dataid) == [dataid] == outputs(IDENTITY, TEXT, TEXT, dataid)


@given(st.sampled_from(FINER), st.data())
def test_a_rollup_covers_exactly_the_span_of_its_output(pair, data):
    fine, coarse = Partition(pair[0]), Partition(pair[1])
    output_id = from_ordinal(coarse, data.draw(st.integers(*bounds(coarse))))
    needed = inputs(Mapping("rollup"), fine, coarse, output_id)
    whole, first, last = span(coarse, output_id), span(fine, needed[0]), span(fine, needed[-1])
    assert whole is not None
    assert first is not None
    assert last is not None
    assert (first[0], last[1]) == whole
    assert ordinal(fine, needed[-1]) - ordinal(fine, needed[0]) == len(needed) - 1


@pytest.mark.parametrize(
    ("mapping", "input", "output", "output_id", "expected"),
    [
        (IDENTITY, DAY, DAY, "2013-01-01", ["2013-01-01"]),
        (Mapping("lag"), DAY, DAY, "2013-03-01", ["2013-02-28"]),
        (Mapping("lag", 2), NUMBER, NUMBER, "10", ["8"]),
        (Mapping("window", 3), DAY, DAY, "2013-01-02", ["2012-12-31", "2013-01-01", "2013-01-02"]),
        (Mapping("window", 3), NUMBER, NUMBER, "10", ["8", "9", "10"]),
        (Mapping("fan_out"), MONTH, DAY, "2013-01-31", ["2013-01"]),
        (Mapping("fan_out"), YEAR, HOUR, "2013-01-31T05", ["2013"]),
        # the first runs are cut off at the input's bounds
        (Mapping("lag"), Partition("day", start="2013-01-01"), DAY, "2013-01-01", []),
        (Mapping("window", 7), Partition("day", start="2013-01-01"), DAY, "2013-01-02", ["2013-01-01", "2013-01-02"]),
        (Mapping("rollup"), Partition("day", end="2013-02-02"), MONTH, "2013-02", ["2013-02-01", "2013-02-02"]),
        (Mapping("window", 3), Partition("range", count=9), Partition("range", count=9), "2", ["1", "2"]),
        (Mapping("lag"), NUMBER, NUMBER, "0", []),
    ],
)
def test_what_an_output_needs(mapping, input, output, output_id, expected):
    assert inputs(mapping, input, output, output_id) == expected


def test_a_month_needs_all_its_days_and_a_day_all_its_hours():
    february = inputs(Mapping("rollup"), DAY, MONTH, "2024-02")
    assert (len(february), february[0], february[-1]) == (29, "2024-02-01", "2024-02-29")
    hours = inputs(Mapping("rollup"), HOUR, DAY, "2024-02-29")
    assert (len(hours), hours[0], hours[-1]) == (24, "2024-02-29T00", "2024-02-29T23")
    assert len(inputs(Mapping("rollup"), HOUR, YEAR, "2024")) == 366 * 24
    assert inputs(Mapping("rollup"), MONTH, YEAR, "9999")[-1] == "9999-12"


@pytest.mark.parametrize(
    ("mapping", "input", "output", "input_id", "expected"),
    [
        (Mapping("lag"), DAY, DAY, "2013-01-01", ["2013-01-02"]),
        (Mapping("lag"), DAY, Partition("day", end="2013-01-01"), "2013-01-01", []),
        (Mapping("window", 3), DAY, DAY, "2013-01-01", ["2013-01-01", "2013-01-02", "2013-01-03"]),
        (Mapping("rollup"), DAY, MONTH, "2013-01-15", ["2013-01"]),
        (Mapping("rollup"), HOUR, YEAR, "2013-01-15T07", ["2013"]),
        (Mapping("fan_out"), MONTH, Partition("day", start="2013-01-30"), "2013-01", ["2013-01-30", "2013-01-31"]),
    ],
)
def test_what_an_input_touches(mapping, input, output, input_id, expected):
    assert outputs(mapping, input, output, input_id) == expected


@pytest.mark.parametrize(
    ("input", "output", "output_id", "known", "expected"),
    [
        (MONTH, DAY, "2013-01-15", ["2012-12", "2013-01", "2013-02"], ["2013-01"]),
        (DAY, MONTH, "2013-02", ["2013-01-31", "2013-02-01", "2013-02-02"], ["2013-02-01"]),
        (DAY, DAY, "2013-01-15", ["2013-01-20", "2013-01-10", "2013-01-14"], ["2013-01-14"]),
        (DAY, DAY, "2013-01-15", ["2013-01-16"], []),
        (DAY, DAY, "2013-01-15", [], []),
        (NUMBER, NUMBER, "10", ["9", "11", "1"], ["9"]),
        (TEXT, TEXT, "v10", ["v9", "v11"], ["v9"]),
    ],
)
def test_the_latest_is_the_newest_that_is_not_after_the_output(input, output, output_id, known, expected):
    assert resolve(Mapping("latest"), input, output, output_id, known) == expected


def test_all_is_everything_known_in_order():
    assert resolve(Mapping("all"), NUMBER, TEXT, "all", ["10", "9", "100"]) == ["9", "10", "100"]
    assert touches(Mapping("all"), NUMBER, DAY, "9", ["2013-01-02", "2013-01-01"]) == ["2013-01-01", "2013-01-02"]


@st.composite
def latest_cases(draw: st.DrawFn) -> tuple[Partition, Partition, list[str], list[str]]:
    names = draw(
        st.sampled_from(
            [
                ("day", "day"),
                ("month", "day"),
                ("day", "month"),
                ("hour", "day"),
                ("text", "text"),
                ("number", "number"),
            ]
        )
    )
    input, output = Partition(names[0]), Partition(names[1])

    def some(partition: Partition) -> st.SearchStrategy[str]:
        if partition.type == "text":
            return st.from_regex(ID_PATTERN, fullmatch=True)
        middle = TYPES[partition.type].parse(
            {"day": "2013-01-15", "month": "2013-01", "hour": "2013-01-15T05"}.get(partition.type, "50")
        )
        return st.integers(middle - 40, middle + 40).map(lambda n: from_ordinal(partition, n))

    known = draw(st.lists(some(input), max_size=8, unique=True))
    known_outputs = draw(st.lists(some(output), min_size=1, max_size=8, unique=True))
    return input, output, known, known_outputs


@given(latest_cases(), st.sampled_from(["latest", "all"]))
def test_whoever_resolves_to_a_chunk_is_touched_by_it(case, kind):
    input, output, known, known_outputs = case
    for output_id in known_outputs:
        for input_id in resolve(Mapping(kind), input, output, output_id, known):
            assert output_id in touches(Mapping(kind), input, output, input_id, known_outputs)


@pytest.mark.parametrize("kind", ["latest", "all"])
def test_a_mapping_that_depends_on_what_exists_cannot_be_asked_without_it(kind):
    for ask in (inputs, outputs):
        with pytest.raises(BadMapping) as problem:
            ask(Mapping(kind), DAY, DAY, "2013-01-01")
        assert kind in problem.value.message


@pytest.mark.parametrize("kind", ["identity", "lag", "window", "rollup"])
def test_a_malformed_dataid_is_refused(kind):
    output = MONTH if kind == "rollup" else DAY
    with pytest.raises(BadDataid):
        inputs(Mapping(kind), DAY, output, "20130101")
    with pytest.raises(BadDataid):
        outputs(Mapping(kind), DAY, output, "20130101")


def test_a_malformed_text_dataid_is_refused():
    with pytest.raises(BadId):
        inputs(IDENTITY, TEXT, TEXT, "../x")


def test_a_malformed_dataid_is_refused_by_latest():
    with pytest.raises(BadDataid):
        resolve(Mapping("latest"), DAY, DAY, "x", ["2013-01-01"])


def fits(kind: str, one: str, other: str) -> bool:
    widths = {"year": 4, "month": 7, "day": 10, "hour": 13}
    return {
        "identity": one == other or (one, other) == ("day", "text"),
        "lag": one == other != "text",
        "window": one == other != "text",
        "rollup": one in widths and other in widths and widths[one] > widths[other],
        "fan_out": one in widths and other in widths and widths[one] < widths[other],
        "latest": one == other or {one, other} <= set(widths),
        "all": True,
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("one", TYPES)
@pytest.mark.parametrize("other", TYPES)
def test_which_types_fit_which_mapping(kind, one, other):
    if fits(kind, one, other):
        check_mapping(Mapping(kind), Partition(one), Partition(other))
    else:
        with pytest.raises(BadMapping) as problem:
            check_mapping(Mapping(kind), Partition(one), Partition(other), "job report, input flights")
        assert problem.value.message.startswith("job report, input flights: ")
        assert kind in problem.value.message
        assert one in problem.value.message
        assert other in problem.value.message


@pytest.mark.parametrize("kind", ["identity", "lag", "window"])
def test_ranges_with_different_counts_do_not_fit(kind):
    with pytest.raises(BadMapping) as problem:
        check_mapping(Mapping(kind), Partition("range", count=10), Partition("range", count=20))
    assert "10" in problem.value.message
    assert "20" in problem.value.message
    check_mapping(Mapping(kind), Partition("range", count=10), Partition("range"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, IDENTITY),
        ("", IDENTITY),
        ("identity", IDENTITY),
        ("rollup", Mapping("rollup")),
        ("lag", Mapping("lag", 1)),
        ("lag 2", Mapping("lag", 2)),
        ("window 7", Mapping("window", 7)),
        ({"lag": 2}, Mapping("lag", 2)),
        ({"window": 7}, Mapping("window", 7)),
        ({"kind": "lag", "n": 2}, Mapping("lag", 2)),
        ({"kind": "all"}, Mapping("all")),
        (Mapping("latest"), Mapping("latest")),
    ],
)
def test_how_a_mapping_is_declared(data, expected):
    assert Mapping.from_data(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        "yesterday",
        "lag 0",
        "lag -1",
        "lag two",
        "lag 2 3",
        "lag " + "1" * 5000,
        "window",
        "rollup 3",
        "identity 2",
        "window 1001",
        {"lag": 0},
        {"lag": "2"},
        {"lag": True},
        {"lag": 1.5},
        {"rollup": 2},
        {"lag": 1, "window": 2},
        {"kind": "lag", "m": 2},
        {"kind": None},
        {},
        7,
        ["lag"],
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused_with_its_key(data):
    with pytest.raises(BadMapping) as problem:
        Mapping.from_data(data, "job.report.reads")
    assert problem.value.message.startswith("job.report.reads: ")


@given(st.sampled_from(list(KINDS)), st.integers(1, 1000))
def test_a_mapping_survives_the_round_trip_through_its_text(kind, n):
    mapping = Mapping(kind, n) if KINDS[kind].has_number else Mapping(kind)
    assert Mapping.from_data(str(mapping)) == mapping


def test_the_text_of_a_mapping_is_short():
    assert [str(Mapping("lag")), str(Mapping("window", 7)), str(IDENTITY)] == ["lag 1", "window 7", "identity"]


def test_which_mappings_are_dynamic_and_which_are_shared():
    assert {kind for kind in KINDS if Mapping(kind).is_dynamic} == {"latest", "all"}
    assert {kind for kind in KINDS if Mapping(kind).is_shared} == {"fan_out", "latest", "all"}
    assert Mapping("window", 2).is_shared
