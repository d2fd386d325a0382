"""Define the receipt, the stored record of one decision: five answers with their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import BadDefinition, DataNotReady, InvalidPath, Locked, NotValidated, WrongData
from ...tokens import shown_texts, without_secrets
from ..definitions.ids import shown
from ..plain import plain_table

YES = "YES"
NOT_ASKED = "NOT_ASKED"


class Question(NamedTuple):
    """One of the five questions, with the name of its refusal."""

    number: int
    name: str
    text: str
    no: str


QUESTIONS: tuple[Question, ...] = (
    Question(1, "ready", "Is every input chunk READY?", DataNotReady.name),
    Question(2, "right", "Is it the data that its dataid promises?", WrongData.name),
    Question(3, "place", "Is it in the right place?", InvalidPath.name),
    Question(4, "validated", "Did it pass its checks, and is it unchanged since?", NotValidated.name),
    Question(5, "safe", "Is nothing in the way: no lock, no full pool?", Locked.name),
)

_NAMES = tuple(question.name for question in QUESTIONS)
_NO = {question.name: question.no for question in QUESTIONS}


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes, no, or None for a question that was not asked; then `why` is the reason.

    own_no is the name of a refusal that is not the one of its question: UNTRUSTED_DEFINITION.
    """

    question: str
    yes: bool | None
    evidence: Mapping[str, object] = field(default_factory=dict, hash=False)
    why: str = ""
    own_no: str = ""

    def __post_init__(self) -> None:
        if self.question not in _NAMES:
            raise BadDefinition(
                f"{shown(self.question)} is not one of the five questions",
                hint=f"The questions are {', '.join(_NAMES)}.",
            )
        # Receipts are stored and shown in many places, and a location in a row may contain a plain-text secret.
        if self.evidence:
            evidence = shown_texts(plain_table(self.evidence, f"evidence of {self.question}"))
            object.__setattr__(self, "evidence", evidence)
        if self.why:
            object.__setattr__(self, "why", without_secrets(self.why))

    @property
    def refusal(self) -> str:
        """The name of the refusal; empty if the answer is not a no."""
        return "" if self.yes is not False else self.own_no or _NO[self.question]

    @property
    def word(self) -> str:
        """The answer for people: yes, no, or not asked."""
        return "not asked" if self.yes is None else "yes" if self.yes else "no"

    def to_data(self) -> dict[str, object]:
        """Plain data."""
        facts: dict[str, object] = {"question": self.question, "answer": self.word, "yes": self.yes}
        return facts | {"evidence": dict(self.evidence), "why": self.why, "refusal": self.refusal}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Why a run was allowed or refused."""

    jobid: str
    dataid: str | None
    answers: tuple[Answer, ...] = ()

    def answer(self, question: str) -> Answer:
        """The answer to this question; not asked if there is none."""
        return next((answer for answer in self.answers if answer.question == question), Answer(question, None))

    @property
    def verdict(self) -> str:
        """The name of the first no; YES if all five questions are answered without a no; otherwise NOT_ASKED.

        A question may be left out with a reason, but at least one answer must be yes.
        """
        refused = {answer.question: answer.refusal for answer in self.answers if answer.refusal}
        for name in _NAMES:
            if name in refused:
                return refused[name]
        is_dealt_with = all(answer.yes or answer.why for answer in self.answers)
        is_whole = len(self.answers) == len(QUESTIONS) and is_dealt_with and any(answer.yes for answer in self.answers)
        return YES if is_whole else NOT_ASKED

    @property
    def no(self) -> Answer | None:
        """The first answer that is a no, if any."""
        return next((answer for answer in self.answers if answer.yes is False), None)

    def to_data(self) -> dict[str, object]:
        """Plain data, with the verdict."""
        data: dict[str, object] = {"jobid": self.jobid, "dataid": self.dataid, "verdict": self.verdict}
        for answer in self.answers:
            facts: dict[str, object] = {"yes": answer.yes}
            if answer.evidence:
                facts["evidence"] = dict(answer.evidence)
            if answer.why:
                facts["why"] = answer.why
            if answer.own_no:
                facts["no"] = answer.own_no
            data[answer.question] = facts
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Receipt:
        """A receipt from to_data."""
        table = plain_table(data, "receipt")
        answers = []
        for name in _NAMES:
            if name not in table:
                continue
            facts = plain_table(table[name], f"receipt.{name}")
            yes = facts.get("yes")
            answers.append(
                Answer(
                    name,
                    yes if isinstance(yes, bool) else None,
                    plain_table(facts.get("evidence", {}), f"receipt.{name}.evidence"),
                    str(facts.get("why", "")),
                    str(facts.get("no", "")),
                )
            )
        dataid = table.get("dataid")
        return cls(str(table.get("jobid", "")), None if dataid is None else str(dataid), tuple(answers))
