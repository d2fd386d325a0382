"""PROTOCOL.md and the code say the same words."""

from __future__ import annotations

from pathlib import Path

from opendataflow.errors import exit_code_of
from opendataflow.model import IN_LOCKS, OUT_LOCKS, QUESTIONS, RUNNING, SYNONYMS
from opendataflow.model.decision.transitions import BACK, GONE, VERBS, TransitionRule
from opendataflow.model.definitions.mapping import KINDS

PAGE = (Path(__file__).parents[2] / "PROTOCOL.md").read_text(encoding="utf-8")


def table_after(heading: str) -> list[list[str]]:
    lines = PAGE.split(heading, 1)[1].splitlines()
    rows = []
    for line in lines[1:]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


def test_the_out_table_of_the_page_is_the_out_table_of_the_code() -> None:
    page = {row[0]: (row[1], row[2]) for row in table_after("### OUT rows")}
    word = {True: "yes", False: "no"}
    code = {status or "no row": (word[lock.may_read], word[lock.may_produce]) for status, lock in OUT_LOCKS.items()}
    assert page == code


def test_the_in_table_of_the_page_is_the_in_table_of_the_code() -> None:
    page = {row[0]: row[1] for row in table_after("### IN rows")}
    words = {(True, True): "yes", (False, False): "no", (False, True): "once its output says RESUBMIT"}
    code = {
        status or "no row": words[lock.may_consume, lock.may_consume_after_resubmit]
        for status, lock in IN_LOCKS.items()
    }
    assert page == code


def test_the_table_of_verbs_of_the_page_is_the_table_of_the_code() -> None:
    page = {row[0]: row[1:] for row in table_after("### Verbs")}
    code = {verb: [*(cell(rule, status) for status in OUT_LOCKS), rule.event] for verb, rule in VERBS.items()}
    assert page == code


def cell(rule: TransitionRule, status: str | None) -> str:
    """What the page says that a verb does to a chunk with this status."""
    shown = {BACK: "as before", GONE: "no row"}
    after = rule.becomes.get(status)
    if status == RUNNING and rule.by_force is not None:
        return f"{shown.get(rule.by_force, rule.by_force)} with `--force`"
    if after is None:
        return "–"
    by_retry = f" or {rule.by_retry} by the retry rule" if rule.by_retry else ""
    return shown.get(after, after) + by_retry


def test_the_five_questions_have_the_names_and_exit_codes_of_the_page() -> None:
    page = [(row[0], row[1], row[3], row[4]) for row in table_after("## The five questions")]
    code = [
        (str(question.number), question.name, question.no, str(exit_code_of(question.no))) for question in QUESTIONS
    ]
    assert page == code


def test_every_mapping_is_on_the_page() -> None:
    assert [row[0].removesuffix(" n") for row in table_after("## Mappings")] == list(KINDS)


def test_every_synonym_is_on_the_page() -> None:
    for word, status in SYNONYMS.items():
        assert f"{word} is accepted and stored as {status}" in PAGE or f"{word} as {status}" in PAGE
