"""Expressions of checks: what ordinary people write is accepted, and what could act is refused by its name."""

from __future__ import annotations

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model.definitions.expression import DEEPEST, FUNCTIONS, LONGEST, check_expression

ALLOWED = [
    "dep_delay < 3000",
    "origin <> dest",
    "delay < 3000 AND id > 0",
    "count(DISTINCT id) = 3",
    "count(*) > 5",
    "max(delay) - min(delay) < 1e3",
    "amount >= 0 and (currency = 'EUR' or currency = \"USD\")",
    "status in ('open', 'closed', 'it''s')",
    "not (a is null and b is null)",
    "a IS NOT DISTINCT FROM b",
    "a is distinct from b",
    "name like 'A\\_%' escape '\\\\'",
    "name rlike '^[A-Z]{2}\\\\d+$'",
    "email regexp '.+@.+'",
    "lower(email) ilike '%@example.com'",
    "day between date '2025-01-01' and DATE'2025-12-31'",
    "ts < timestamp '2025-01-01 00:00:00' + interval 1 day",
    "ts >= current_timestamp() - INTERVAL '7' DAY",
    "ordered_at <= shipped_at or shipped_at is null",
    "CASE WHEN kind = 'a' THEN x > 0 ELSE x <= 0 END",
    "cast(amount as decimal(10, 2)) = amount",
    "try_cast(code AS int) is not null",
    "amount::double > 0.5",
    "address.city <> '' and `the column`.`a.b` = 1",
    "`values` > 0",
    "extract(YEAR FROM day) = 2025",
    "trim(BOTH 'x' FROM name) = name",
    "substring(code FROM 1 FOR 2) = 'AB'",
    "length(trim(name)) > 0",
    "coalesce(discount, 0) <= price * 0.5",
    "a % 10 = 0 and a div 10 = 3 and a & 1 = 0 and a | 2 = 3 and ~a ^ b = -1",
    "price - -1 > .5 and 1.e3 > 2. and 5L < 6BD",
    "size(tags) > 0 and tags[0] = 'x' and array_contains(tags, 'y')",
    "get_json_object(payload, '$.id') = cast(id as string)",
    "from_json(payload, 'a int').a > 0",
    "first || ' ' || last = full_name",
    "a <=> b and a == b and a != b and !(a < b)",
    "round(sum(amount), 2) = 100.00",
    "sha2(name, 256) = digest and crc32(body) = checksum",
    "offset >= 0 and limit > 0 and buyer.user = 'me' and buyer.`user` = 'me' and date is not null and order_no = 1",
    "x like any ('a%', 'b%')",
    "percentile_approx(delay, 0.5) < 60",
    "name = 'select * from t; -- no comment /* inside */ of a text'",
    "month(day) = 11\n  AND year(day) = 2025",
    "'größe' = kind and `größe` > 0",
]


@pytest.mark.parametrize("expression", ALLOWED)
def test_what_ordinary_people_write_is_accepted(expression: str) -> None:
    check_expression(expression, "dataset a: checks.sql")


REFUSED = [
    ("java_method('java.lang.Runtime', 'getRuntime') is not null", "java_method"),
    ("reflect('java.lang.System', 'exit', 0) = 1", "reflect"),
    ("try_reflect('java.lang.System', 'getenv', 'PASSKEY') = 'x'", "try_reflect"),
    ("JAVA_METHOD ('a', 'b') = 1", "JAVA_METHOD"),
    ("java_method\n('a', 'b') = 1", "java_method"),
    ("`java_method`('a', 'b') = 1", "`java_method`"),
    ('"java_method"(1) = 1', "java_method"),
    ("system.builtin.java_method('a', 'b') = 1", "system.builtin.java_method"),
    ("builtin.upper(a) = 'A'", "builtin.upper"),
    ("`system`.`builtin`.`upper`(a) = 'A'", "`upper`"),
    ("identifier('java_method')('a')", "identifier"),
    ("raise_error('boo')", "raise_error"),
    ("assert_true(false) is null", "assert_true"),
    ("input_file_name() = ''", "input_file_name"),
    ("_metadata.file_path <> ''", "_metadata"),
    ("`_metadata`.file_path <> ''", "_metadata"),
    ("current_user() = 'root'", "current_user"),
    ("current_user = 'root'", "current_user"),
    ("`current_user` = 'root'", "current_user"),
    ("user = 'root'", "user"),
    ("`USER` = 'root'", "USER"),
    ("`u\u017fer` = 'root'", "u\u017fer"),
    ("`current_u\u017fer` = 'root'", "current_u\u017fer"),
    ("`SESSION_USER` = 'root'", "SESSION_USER"),
    ("`se\u017f\u017fion_user` = 'root'", "ion_user"),
    ("grouping__id = 0", "grouping__id"),
    ("`group\u0131ng__\u0130d` = 0", "ng__"),
    ("`current_database` = 'x'", "current_database"),
    ("`current_schema` = 'x'", "current_schema"),
    ("`current_catalog` = 'x'", "current_catalog"),
    ("x.`_METADATA`.file_path <> ''", "_METADATA"),
    ("version() = '4'", "version"),
    ("rand() > 0.5", "rand"),
    ("uuid() <> ''", "uuid"),
    ("repeat('x', 2000000000) = ''", "repeat"),
    ("sequence(1, 2000000000) is null", "sequence"),
    ("xpath(a, 'b') is null", "xpath"),
    ("from_avro(a, 'b') is null", "from_avro"),
    ("(select count(*) from t) > 0", "select"),
    ("a in (select b from t)", "select"),
    ("exists (select 1)", "exists"),
    ("(SeLeCt 1) = 1", "SeLeCt"),
    ("a in (from t)", "FROM"),
    ("(from t) = 1", "FROM"),
    ("a in (table t)", "table"),
    ("a in (values (1), (2))", "values"),
    ("a in (with x as (select 1) select * from x)", "with"),
    ("a in (map 'x' using 'touch /tmp/pwned')", "map"),
    ("a in (map('x') using 'touch /tmp/pwned')", "map"),
    ("a in (reduce a using 'sh')", "reduce"),
    ("a in (struct(1) using 'sh')", "using"),
    ("exists(tags, x -> x > 1)", "exists"),
    ("size(tags) > x -> 1", "->"),
    ("a = (select value from text.`/etc/passwd`)", "select"),
    ("row_number() over (partition by a) = 1", "row_number"),
    ("sum(a) over (order by b) > 1", "over"),
    ("explode(tags) = 1", "explode"),
    ("read_files('/etc/passwd') = ''", "read_files"),
    ("ai_query('x') = ''", "ai_query"),
    ("a = 1 -- and b = 2", "--"),
    ("a = 1 /* and b = 2 */", "/*"),
    ("a = 1; drop table b", ";"),
    ("a = ?", "?"),
    ("a = :name", ":"),
    ("a = @var", "@"),
    ("a = {b}", "{"),
    ("a = '${spark.app.name}'", "${"),
    ("a = ${env:PASSKEY}", "${"),
    ("a = r'x'", "r'"),
    ('a = R"x\\"', "does not end"),
    ("a = r'x\\' or b = 'c'", "r'"),
    ("a = 'it\\'s'", "backslash"),
    ("a = 'x\\\"y'", "backslash"),
    ("a = 'open", "does not end"),
    ("a = `open", "does not end"),
    ("a = 'x\0y'", "zero byte"),
    ("a = 1\0", "\\x00"),
    ("a = b\u00a0", "xa0"),
    ("\u017felect = 1", "\u017f"),
    ("gr\u00f6\u00dfe > 0", "\u00f6"),
    ("a:b = 1", ":"),
    ("file://x = 1", ":"),
    ("a $ b", "$"),
    ("a \\ b", "\\"),
    ("f(a => 1)", "f"),
    ("round(a => 1)", "=>"),
    ("a |> b", "|>"),
    ("1.a.b = 2", "."),
    ("a..b = 2", "."),
    ("udf_of_somebody(a) = 1", "udf_of_somebody"),
]


@pytest.mark.parametrize(("expression", "token"), REFUSED)
def test_what_could_act_is_refused_with_the_token_that_could(expression: str, token: str) -> None:
    with pytest.raises(BadDefinition) as refused:
        check_expression(expression, "dataset a: checks.sql")
    what = refused.value.message.removeprefix("dataset a: checks.sql: ")
    assert token in what
    assert "unsafe_sql = true" in refused.value.hint


def test_length_and_depth_are_bounded() -> None:
    check_expression("a = " + "(" * DEEPEST + "1" + ")" * DEEPEST, "a")
    for expression in (
        "a = '" + "x" * LONGEST + "'",
        "(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1),
        "not " * 200 + "a",
        "a = " + "- " * 200 + "1",
        "case when a then " * 60 + "b" + " end" * 60,
        "a" + "[0" * 60 + "]" * 60 + " = 1",
    ):
        with pytest.raises(BadDefinition):
            check_expression(expression, "a")


def test_no_function_of_the_list_could_act() -> None:
    assert not FUNCTIONS & {"java_method", "reflect", "try_reflect", "raise_error", "assert_true", "input_file_name"}
    assert not FUNCTIONS & {"map", "exists", "transform", "reduce", "values", "table", "select", "from", "identifier"}
