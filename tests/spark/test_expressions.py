"""Expressions of checks: what is accepted is to Spark what it is to us, and what acts comes from nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from opendataflow.errors import BadDefinition
from opendataflow.model import Check, Dataset, Partition
from opendataflow.model.definitions.dataset import table_name
from opendataflow.model.definitions.expression import FUNCTIONS, KEYWORDS, check_expression
from opendataflow.spark import jdbc
from opendataflow.spark.check_kinds import probes
from opendataflow.spark.reading import catalogue_name
from opendataflow.spark.schema import from_ddl
from tests.support.shell import Shell, statuses
from tests.unit.model.test_expression import ALLOWED, REFUSED

# What the grammar itself makes of an expression; everything that runs by its name is an UnresolvedFunction.
_SUB_QUERIES = (
    "ScalarSubquery",
    "ListQuery",
    "Exists",
    "InSubquery",
    "LateralSubquery",
    "FunctionTableSubqueryArgument",
)


def nodes(tree: Any) -> Iterator[Any]:
    yield tree
    children = tree.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


def check_tree(spark: SparkSession, expression: str) -> bool:
    """Whether Spark can parse it; if so it must hold nothing that could act."""
    jvm: Any = spark._jvm
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        tree = parser.parseExpression(expression)
    except ParseException:
        return False
    plan_expression = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.PlanExpression")
    for node in nodes(tree):
        name = node.getClass().getSimpleName()
        assert not plan_expression.isInstance(node), expression
        assert name not in _SUB_QUERIES, expression
        assert "Lambda" not in name, expression
        assert "Window" not in name, expression
        assert "Parameter" not in name, expression
        assert "Identifier" not in name, expression
        if name == "UnresolvedFunction":
            parts = node.nameParts()
            called = [str(parts.apply(index)).lower() for index in range(parts.size())]
            assert len(called) == 1, expression
            assert called[0] in FUNCTIONS | KEYWORDS | GRAMMAR, (called, expression)
    return True


# Functions that stand for a word or a sign of the grammar.
GRAMMAR = {"concat", "not", "positive", "negative", "collate"}


@pytest.mark.parametrize("expression", ALLOWED)
def test_what_people_write_is_an_expression_of_spark_too(spark: SparkSession, expression: str) -> None:
    assert check_tree(spark, expression)


def test_every_function_of_the_list_is_one_of_spark_and_the_same_for_every_row_of_a_run(spark: SparkSession) -> None:
    grammar = {"cast", "try_cast", "extract", "overlay", "position", "like", "ilike", "rlike", "regexp", "if", "struct"}
    known = {row.function.lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert known >= FUNCTIONS - grammar - {"timestampadd", "timestampdiff", "dateadd", "datediff", "any", "some"}
    random = (
        "rand",
        "randn",
        "random",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "randstr",
    )
    assert not FUNCTIONS.intersection(random)


HOSTILE = (
    "select", "from", "FROM t", "with", "table", "values", "(select 1)", "(values (1))", "(from t)", "(table t)", "exists",
    "map", "map('x')", "reduce", "transform", "using 'sh'", "java_method('a', 'b')", "reflect('a', 'b')", "`reflect`('a')",
    "system.builtin.reflect('a')", "identifier('a')", "raise_error('x')", "text.`/etc/passwd`", "over (order by a)", "->",
    "x -> x", "=>", "|>", "--", "/*", "*/", ";", "?", ":a", "@a", "${a}", "r'", "R\"", "\\", "'", '"', "`", "{", "}", "\u00a0",
    "lateral", "where a", "union", "as b", "::int", "collate x", "distinct", "trim(from t)", "extract(from a)", "x'1f'",
    "in (a, b)", "any (a)", "case when", "end", "interval 1 day", "tags[0]", "(a, b)", "a.b.c", "count(*)", "filter (where a)",
)  # fmt: skip
PIECES = st.sampled_from(
    (*HOSTILE, "a", "b", "1", "'x'", "(", ")", ",", "=", "and", "not", "is null", "upper(a)", "+", "<")
)


@settings(max_examples=400)
@given(st.lists(PIECES, min_size=1, max_size=7), st.sampled_from((" ", "")))
def test_of_any_pieces_only_what_cannot_act_is_accepted(spark: SparkSession, pieces: list[str], glue: str) -> None:
    refuse_or_check(spark, glue.join(pieces))


@settings(max_examples=400)
@given(
    st.sampled_from([*ALLOWED, *(expression for expression, _ in REFUSED)]),
    st.sampled_from(HOSTILE),
    st.integers(0, 80),
    st.integers(0, 6),
)
def test_of_a_changed_expression_only_what_cannot_act_is_accepted(
    spark: SparkSession, expression: str, piece: str, where: int, gone: int
) -> None:
    where %= len(expression) + 1
    refuse_or_check(spark, f"{expression[:where]} {piece} {expression[where + gone :]}")


EXPRESSIONS = st.recursive(
    st.sampled_from(("a", "`b c`.d", "1", "'x'", "date '2025-01-01'", "null", "current_date", "*", *HOSTILE)),
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(("=", "+", "and", "like", "<=>", "in", "is distinct from")),
            inner,
        ),
        st.builds("{}({}, {})".format, st.sampled_from((*sorted(FUNCTIONS), "reflect", "exists", "map")), inner, inner),
        st.builds("case when {} then {} end".format, inner, inner),
        st.builds("cast({} as array<int>)[{}]".format, inner, inner),
        st.builds("not {}".format, inner),
        st.builds("{} in ({}, {})".format, inner, inner, inner),
        st.builds(
            "{}({} from {})".format, st.sampled_from(("trim", "extract", "substring", "upper", "")), inner, inner
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=600)
@given(EXPRESSIONS)
def test_of_any_expression_only_what_cannot_act_is_accepted(spark: SparkSession, expression: str) -> None:
    refuse_or_check(spark, expression)


def refuse_or_check(spark: SparkSession, expression: str) -> None:
    try:
        check_expression(expression, "test")
    except BadDefinition:
        return
    check_tree(spark, expression)


@pytest.mark.parametrize("expression", [expression for expression, _ in REFUSED])
def test_where_text_becomes_code_it_is_checked_again(spark: SparkSession, expression: str) -> None:
    checks = (Check("sql", {"name": "s", "expression": expression}),)
    with pytest.raises(BadDefinition, match="unsafe_sql"):
        probes(spark.range(1).selectExpr("id AS a"), Dataset("d", checks=checks), "1")


def test_unsafe_sql_is_for_whoever_means_it(spark: SparkSession) -> None:
    checks = (
        Check("sql", {"name": "s", "expression": "a in (select 0) and reflect('java.lang.Math', 'abs', -1) = '1'"}),
    )
    rows = spark.range(1).selectExpr("id AS a")
    assert probes(rows, Dataset("d", checks=checks, options={"unsafe_sql": True}), "1")
    for said in (False, "true", 1):
        with pytest.raises(BadDefinition, match="unsafe_sql"):
            probes(rows, Dataset("d", checks=checks, options={"unsafe_sql": said}), "1")


def test_an_expression_that_spark_cannot_parse_for_its_depth_is_a_bad_definition(spark: SparkSession) -> None:
    for expression in ("a" + " + a" * 2400 + " > 0", "a = 1" + " or a = 1" * 1000, "not " * 39 + "(a > 0)"):
        checks = (Check("sql", {"name": "s", "expression": expression}),)
        try:
            (probe,) = probes(spark.range(1).selectExpr("id AS a"), Dataset("d", checks=checks), "1")
        except BadDefinition:
            continue
        assert probe.is_by_row


@pytest.mark.parametrize(
    "names",
    [
        {"tablename": "text.`/etc/passwd`"},
        {"schemaname": "text", "tablename": "`/etc/passwd`"},
        {"schemaname": "text", "tablename": "/etc/passwd"},
        {"tablename": "t; drop table u"},
        {"tablename": "(select 1)"},
        {"tablename": "t` union select 1"},
    ],
)
def test_a_table_of_sparks_catalogue_is_never_a_file_or_a_query(names: dict[str, Any]) -> None:
    with pytest.raises(BadDefinition, match="not the name of a table"):
        table_name(Dataset("d", kind="table", format="delta", **names))
    assert (
        catalogue_name(Dataset("d", kind="table", format="delta", schemaname="s-1", tablename="t.größe"))
        == "`s-1`.`t`.`größe`"
    )


@pytest.mark.parametrize(
    "ddl",
    [
        "a INT DEFAULT reflect('java.lang.System', 'exit', 0)",
        "a INT GENERATED ALWAYS AS (reflect('java.lang.System', 'exit', 0))",
        '{"type":"struct","fields":[{"name":"a","type":{"type":"udt","pyClass":"os.system"},"nullable":true,"metadata":{}}]}',
        '{"type":"udt","class":"java.lang.Runtime"}',
        "a INT) SELECT 1 --",
    ],
)
def test_a_schema_is_names_and_types_and_nothing_else(spark: SparkSession, ddl: str) -> None:
    with pytest.raises(BadDefinition):
        from_ddl(ddl)


TOML = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[1]"

[dataset.raw]
location = "raw/{{dataid}}.csv"
schema = "a INT"
checks = {{ sql = {{ short = "{expression}" }} }}
{more}
[dataset.plain]
location = "plain/{{dataid}}.csv"
schema = "a INT"

[dataset.copied]
location = "copied/{{dataid}}"
checks = {{ sql = {{ short = "a < 10" }} }}

[job.copies]
copy = {{ from = "plain", to = "copied" }}
"""
ATTACKS = {
    "java": "java_method('java.nio.file.Files', 'createFile', java_method('java.nio.file.Path', 'of', '{canary}')) is null",
    "reflect": "reflect('java.lang.System', 'setProperty', 'odf.canary', '1') is null",
    "error": "raise_error('no') is null",
    "query": "(select count(*) from text.`/etc/passwd`) = 0",
    "script": "a in (map a using 'touch {canary}')",
}
NO = ("BAD_DEFINITION", "UNTRUSTED_DEFINITION")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """A project with one good chunk, once with the embedded store and once with PostgreSQL."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    made = Shell(tmp_path, url)
    if url:
        made.odf("migrate")
    made.write("dataflow.toml", TOML.format(expression="a < 10", more=""))
    made.odf("apply", "--yes")
    made.write("data/plain/1.csv", "a\n5\n")
    made.write("data/raw/2.csv", "a\n6\n")
    made.odf("ready", "plain", "1")
    return made


def put_check(shell: Shell, dataset: str, expression: str, *, options: str = "") -> None:
    checks = json.dumps({"sql": {"short": expression}}).replace("'", "''")
    more = f", options = '{options}'" if options else ""
    shell.dml(f"update dataset set checks = '{checks}'{more} where datasetid = '{dataset}'")


@pytest.mark.fault(22, 31)
def test_a_check_that_acts_does_nothing_from_the_store(shell: Shell) -> None:
    canary = shell.folder / "pwned"
    put_check(shell, "raw", ATTACKS["query"])
    refused = shell.odf("ready", "raw", "2", code=None)
    put_check(shell, "raw", "a < 10")
    put_check(shell, "copied", ATTACKS["java"].format(canary=canary))
    drained = shell.odf("drain", code=None)
    put_check(shell, "copied", ATTACKS["script"].format(canary=canary))
    shell.odf("resubmit", "copied", "1", "--yes", code=None)
    ran = shell.odf("run", "copies", "--dataid", "1", code=None)
    for answer in (refused, drained, ran):
        assert answer.code
        assert any(name in answer.out + answer.err for name in NO), answer
        assert "root:" not in answer.out + answer.err
    assert statuses(shell).get(("copied", "1")) != "READY"
    assert ("raw", "2") not in statuses(shell)
    assert not canary.exists()


@pytest.mark.fault(31)
def test_unsafe_sql_counts_for_nothing_from_the_store(shell: Shell) -> None:
    pytest.importorskip("opendataflow.project.trust")
    canary = shell.folder / "pwned"
    expression = ATTACKS["java"].format(canary=canary)
    put_check(shell, "raw", expression, options='{"schema": "a INT", "unsafe_sql": true}')
    refused = shell.odf("ready", "raw", "2", code=18)
    assert "UNTRUSTED_DEFINITION" in refused.err
    assert not canary.exists()


def test_a_check_that_acts_is_refused_when_the_project_file_is_read(tmp_path: Path) -> None:
    home = Shell(tmp_path)
    commands = [["apply", "--yes"], ["apply", "--dry-run"], ["status"], ["drain"], ["ready", "raw", "1"]]
    for attack, command in zip(ATTACKS.values(), commands, strict=True):
        home.write("dataflow.toml", TOML.format(expression=attack.format(canary="/tmp/x"), more=""))
        refused = home.odf(*command, code=2)
        assert "BAD_DEFINITION" in refused.err
        assert "[dataset.raw] checks" in refused.err
        assert "unsafe_sql = true" in refused.err
    home.write("dataflow.toml", TOML.format(expression="a in (select 5)", more="unsafe_sql = true\n"))
    home.odf("apply", "--yes")
    home.write("data/raw/1.csv", "a\n5\n")
    home.odf("ready", "raw", "1")
    assert statuses(home)["raw", "1"] == "READY"


@pytest.mark.parametrize(
    "name",
    [
        "t; drop table u",
        "(select 1) x",
        "t where 1=1",
        't" or "',
        "t--x",
        "t#",
        "t-- ",
        "`t;u`",
        '"a;b"',
        "t\\",
        "t'u",
        "t\nu",
        "",
    ],
)
def test_a_table_of_jdbc_is_a_name_and_nothing_else(spark: SparkSession, name: str) -> None:
    table = Dataset("d", kind="table", format="jdbc", tablename=name, options={"url": "jdbc:derby:memory:nowhere"})
    with pytest.raises(BadDefinition, match="not the name of a table"):
        jdbc.read_table(spark, table, "")


def test_a_bound_that_some_databases_would_not_take_for_a_text_is_refused() -> None:
    table = Dataset("d", kind="table", format="jdbc", tablename="t", partition=Partition("range", column="k", count=2))
    assert jdbc.checked_bounds(table, "1", ("a", "it's")) == ("a", "it's")
    with pytest.raises(BadDefinition, match="a backslash"):
        jdbc.checked_bounds(table, "1", ("a", "\\' or 1=1 --"))
