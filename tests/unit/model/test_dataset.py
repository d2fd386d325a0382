from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDataid, BadDefinition, BadId
from opendataflow.model.definitions.checks import Check
from opendataflow.model.definitions.dataset import TODAY, Dataset, placeholders
from opendataflow.model.definitions.ids import ID_PATTERN
from opendataflow.model.definitions.partition import Partition


@pytest.mark.parametrize(
    ("partition", "location", "dataid", "expected"),
    [
        ("day", "raw/flights/{dataid}.csv", "2013-01-01", "raw/flights/2013-01-01.csv"),
        ("day", "{datasetid}/{year}/{month}/{day}", "2013-01-02", "flights/2013/01/02"),
        ("hour", "{year}/{month}/{day}/{hour}.json", "2013-01-02T05", "2013/01/02/05.json"),
        ("month", "{year}-{month}", "2013-07", "2013-07"),
        ("year", "y={year}", "2013", "y=2013"),
        ("text", "s3a://lake/{dataid}/{dataid}", "a.b", "s3a://lake/a.b/a.b"),
        ("text", "fixed", "a", "fixed"),
        ("text", "", "a", ""),
    ],
)
def test_where_a_chunk_lies(partition, location, dataid, expected):
    assert Dataset("flights", location=location, partition=Partition(partition)).location_of(dataid) == expected


@pytest.mark.parametrize(("written", "known"), [("CSV", "csv"), ("Parquet", "parquet"), ("JDBC", "jdbc")])
def test_a_known_format_may_be_written_in_any_case(written, known):
    assert Dataset("flights", format=written).format == known


def test_a_format_that_may_be_the_name_of_a_class_stays_as_it_is():
    assert Dataset("flights", format="org.example.DefaultSource").format == "org.example.DefaultSource"


@pytest.mark.parametrize(
    ("partition", "location", "word"),
    [
        ("day", "{dataid.__class__}", "{dataid.__class__}"),
        ("day", "{dataid!r}", "{dataid!r}"),
        ("day", "{dataid:>99999999}", "{dataid:"),
        ("day", "{0}", "{0}"),
        ("day", "{}", "{}"),
        ("day", "{Dataid}", "{Dataid}"),
        ("day", "{hour}", "{hour}"),
        ("month", "{day}", "{day}"),
        ("text", "{year}", "{year}"),
        ("day", "{dataid", "brace"),
        ("day", "dataid}", "brace"),
        ("day", "{{dataid}}", "brace"),
    ],
)
def test_a_location_with_an_unknown_placeholder_is_refused(partition, location, word):
    with pytest.raises(BadDefinition) as problem:
        Dataset("flights", location=location, partition=Partition(partition))
    assert word in problem.value.message
    assert "flights" in problem.value.message


@given(st.from_regex(ID_PATTERN, fullmatch=True))
def test_no_dataid_leads_out_of_its_folder(dataid):
    location = Dataset("flights", location="raw/{dataid}/x").location_of(dataid)
    assert location == f"raw/{dataid}/x"
    assert ".." not in location.split("/")


def test_a_malformed_dataid_has_no_location():
    with pytest.raises(BadDataid):
        Dataset("flights", location="{dataid}", partition=Partition("day")).location_of("x")
    with pytest.raises(BadId):
        Dataset("flights", location="{dataid}").location_of("../x")


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"kind": "tabel"}, "tabel"),
        ({"kind": None}, "kind"),
        ({"hostname": 7}, "hostname"),
        ({"partition": "day"}, "partition"),
        ({"options": {"x": object()}}, "x"),
        ({"options": {7: "x"}}, "7"),
        ({"options": ["x"]}, "table"),
        ({"options": {"x": float("nan")}}, "nan"),
    ],
)
def test_a_dataset_that_makes_no_sense_is_refused(values, word):
    with pytest.raises(BadDefinition) as problem:
        Dataset("flights", **values)
    assert word in problem.value.message
    assert "flights" in problem.value.message


def test_a_dataset_id_outside_the_grammar_is_refused():
    with pytest.raises(BadId):
        Dataset("a b")


def test_datasets_are_equal_by_value_and_hashable():
    one, other = (
        Dataset("flights", options={"a": [1]}, checks=(Check("span"), Check("rows", {"min": 1}))) for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one != Dataset("flights")


def test_options_are_copied_as_plain_data():
    given = {"since": date(2013, 1, 1), "list": (1, 2)}
    dataset = Dataset("flights", options=given)
    given["list"] = (3,)
    assert dataset.options == {"since": "2013-01-01", "list": [1, 2]}


def test_the_ciphertext_is_not_shown():
    assert "c2VjcmV0" not in repr(Dataset("flights", encryptedpass="c2VjcmV0"))


def test_today_is_a_day_in_utc():
    assert (TODAY.datasetid, TODAY.partition.type, TODAY.options) == ("today", "day", {"timezone": "UTC"})


def test_finer_types_have_more_placeholders():
    assert placeholders(Partition("month")) == ("dataid", "datasetid", "year", "month")
    assert placeholders(Partition("number")) == ("dataid", "datasetid")
