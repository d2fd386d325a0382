"""Check SQL expressions of checks: only columns, literals, operators and listed functions are allowed.

An expression becomes Spark code, so every token must be on a list here. Such an expression can only read the columns of
one chunk: no Java, no files, no tables, no facts about the machine. Tokens that lexers could read differently (comments,
raw strings, escaped quotes, variables) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import BadDefinition
from .ids import shown

LONGEST = 10_000  # characters
DEEPEST = 40  # nesting of parentheses, brackets and CASE


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions of columns that depend only on their arguments and the clock, with results of about the size of the arguments.
FUNCTIONS = _words("""
    abs acos acosh asin asinh atan atan2 atanh bround cbrt ceil ceiling cos cosh cot csc degrees e exp expm1 factorial
    floor greatest hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec
    sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract width_bucket
    bit_count bit_get getbit shiftleft shiftright shiftrightunsigned

    ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt encode
    endswith find_in_set hex ilike initcap instr is_valid_utf8 lcase left len length levenshtein like locate lower ltrim
    luhn_check octet_length overlay position regexp regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_like regexp_replace regexp_substr replace reverse right rlike rtrim soundex split split_part startswith
    substr substring substring_index translate trim try_url_decode ucase unbase64 unhex upper url_decode

    add_months convert_timezone curdate current_date current_time current_timestamp date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear extract from_unixtime from_utc_timestamp hour last_day localtimestamp make_date make_timestamp minute month
    monthname months_between next_day now quarter second timestamp timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_make_timestamp try_to_date try_to_timestamp unix_date unix_micros unix_millis
    unix_seconds unix_timestamp weekday weekofyear year

    coalesce equal_null if ifnull isnan isnotnull isnull nanvl nullif nullifzero nvl nvl2 typeof zeroifnull

    bigint binary boolean cast decimal double float int smallint string tinyint to_binary to_char to_number to_varchar
    try_cast try_to_binary try_to_number

    array array_append array_compact array_contains array_distinct array_except array_intersect array_join array_max
    array_min array_position array_prepend array_remove array_size array_sort array_union arrays_overlap cardinality
    element_at flatten get map_contains_key map_entries map_keys map_values named_struct size slice sort_array struct
    try_element_at

    from_json get_json_object json_array_length json_object_keys parse_url try_parse_url

    crc32 hash md5 sha sha1 sha2 xxhash64

    any any_value approx_count_distinct approx_percentile avg bit_and bit_or bit_xor bool_and bool_or corr count count_if
    covar_pop covar_samp every first first_value kurtosis last last_value max max_by mean median min min_by mode
    percentile percentile_approx regr_count skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum
    var_pop var_samp variance
""")

# Words before a parenthesis that are not functions: grammar, and types with a length.
KEYWORDS = _words("""
    all and any as between both case distinct div else escape from ilike in is like not or regexp rlike some then when
    char dec numeric varchar
""")
# Words of queries, or words that read something other than a column: not allowed as bare column names.
_RESERVED = _words("""
    select with table values map reduce transform using lateral exists where join union intersect except having over
    into pivot unpivot identifier
""")
# Not allowed in backquotes either: without such a column, Spark calls a function or reads something else.
_NO_COLUMNS = _words("""
    _metadata grouping__id user current_user session_user current_catalog current_database current_schema
""")
_WITH_FROM = _words("extract trim substr substring overlay")  # trim(BOTH 'x' FROM name)
_BEFORE_STRING = _words("date timestamp timestamp_ntz timestamp_ltz interval x")  # DATE'2025-11-12'

# Only ASCII outside quotes: Spark folds the case of other letters, so ſelect could become a keyword.
_TOKEN = re.compile(
    r"""
      (?P<space>  [ \t\r\n]+ )
    | (?P<string> '(?:[^'\\\0]|''|\\[^'"\0])*' | "(?:[^"\\\0]|""|\\[^'"\0])*" )
    | (?P<quoted> `(?:[^`\\\0]|``)+` )
    | (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|bd|[lLsSyYfFdD])?(?![A-Za-z0-9_]) )
    | (?P<word>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<operator> <=> | <> | <= | >= | != | == | \|\| | :: | -(?![->]) | /(?![/*]) | =(?!>) | \|(?!>) | [<>+*%&^~!] )
    | (?P<mark>   [(),.\[\]] )
    """,
    re.VERBOSE | re.ASCII,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


_NOTHING = _Token("", "", 0)


def check_expression(expression: str, where: str) -> None:
    """Refuse an expression with anything but columns, literals, operators and listed functions."""
    if len(expression) > LONGEST:
        raise _refused(expression, where, f"it has {len(expression):,} characters; {LONGEST:,} are allowed")
    if "${" in expression:
        raise _refused(expression, where, "${ begins a variable, which Spark substitutes even inside text")
    tokens = list(_tokens(expression, where))
    _check_depth(tokens, expression, where)
    for index in range(len(tokens)):
        problem = _problem(tokens, index)
        if problem:
            raise _refused(expression, where, problem)


def _tokens(expression: str, where: str) -> Iterator[_Token]:
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise _refused(expression, where, f"{_beginning(expression[position:])} is not allowed")
        position = match.end()
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match[0], match.start())


def _beginning(rest: str) -> str:
    """The beginning of a token that is not recognized."""
    if rest[0] in "'\"`":
        return f"{shown(rest[:20])}, which does not end or holds a backslash before a quote or a zero byte,"
    return shown(next(sign for sign in ("--", "/*", "//", "->", "=>", "|>", rest[0]) if rest.startswith(sign)))


def _problem(tokens: list[_Token], index: int) -> str:
    """Why a token is not allowed at its position; empty if it is."""
    token = tokens[index]
    previous = tokens[index - 1] if index else _NOTHING
    after = tokens[index + 1] if index + 1 < len(tokens) else _NOTHING
    if token.kind == "string":
        return _problem_of_string(token, previous, after)
    if token.kind == "quoted":
        if after.text == "(":
            return f"the function {token.text} in backquotes is not allowed"
        return _problem_of_name(token, previous)
    if token.text == ".":
        is_between_names = previous.kind in ("word", "quoted") or previous.text in (")", "]")
        return "" if is_between_names and after.kind in ("word", "quoted") else "the . is not followed by a field name"
    if token.kind != "word":
        return ""
    if token.word == "from":
        return "" if _is_from_allowed(tokens, index) else "FROM is not allowed here: an expression reads no table"
    if after.text == "(":
        if previous.text == ".":
            return f"the function {_chain(tokens, index)} is not on the list"
        is_known = token.word in FUNCTIONS or token.word in KEYWORDS
        return "" if is_known else f"the function {shown(token.text)} is not on the list"
    if token.word in _RESERVED and previous.text != ".":
        return f"the word {token.text} is not allowed; write the name of a column in backquotes: `{token.text}`"
    return _problem_of_name(token, previous)


def _problem_of_name(token: _Token, previous: _Token) -> str:
    name = _without_case(token.text.strip("`"))
    is_field = previous.text == "." and name != "_metadata"
    return f"Spark may not read {token.text} as a column" if name in _NO_COLUMNS and not is_field else ""


def _without_case(name: str) -> str:
    """A name as Java compares it case-insensitively: ſ is s, and both Turkish i are i."""
    return name.upper().lower().replace("\u0307", "")


def _problem_of_string(token: _Token, previous: _Token, after: _Token) -> str:
    if after.text in ("(", "."):
        return f"{shown(token.text)} is text, which cannot be called or read from"
    touches = previous.kind == "word" and previous.start + len(previous.text) == token.start
    if touches and previous.word not in _BEFORE_STRING:
        return f"{previous.text}{token.text[0]}…{token.text[0]} is not an allowed literal"
    return ""


def _is_from_allowed(tokens: list[_Token], index: int) -> bool:
    """Whether this is IS [NOT] DISTINCT FROM, or FROM in the arguments of a function."""
    words = [token.word for token in tokens[max(index - 3, 0) : index]]
    if words[-2:] == ["is", "distinct"] or words[-3:] == ["is", "not", "distinct"]:
        return True
    depth = 0
    for before in range(index - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(tokens[before].text, 0)
        if depth < 0:
            return tokens[before - 1].word in _WITH_FROM and before < index - 1
    return False


def _chain(tokens: list[_Token], index: int) -> str:
    """The dotted name that ends here."""
    start = index
    while start and (tokens[start - 1].text == "." or tokens[start - 1].kind in ("word", "quoted")):
        start -= 1
    return "".join(token.text for token in tokens[start : index + 1])


def _check_depth(tokens: list[_Token], expression: str, where: str) -> None:
    depth = run = 0
    for token in tokens:
        depth += 1 if token.text in ("(", "[") or token.word == "case" else 0
        depth -= 1 if token.text in (")", "]") or token.word == "end" else 0
        # Each NOT and each sign adds a level in the parser.
        run = run + 1 if token.word == "not" or token.text in ("!", "-", "+", "~") else 0
        if depth > DEEPEST or run > DEEPEST:
            raise _refused(expression, where, f"it is nested more than {DEEPEST} times")


def _refused(expression: str, where: str, problem: str) -> BadDefinition:
    return BadDefinition(
        f"{where}: {shown(expression)}: {problem}",
        hint="An expression of a check may have columns, literals, operators, CASE, CAST and the functions that "
        "docs/reference/dataflow-toml.md lists. To allow any expression of Spark, declare it on the dataset in "
        "dataflow.toml: unsafe_sql = true",
    )
