"""Playing histories by their seeds, and making one that fails as short as it can be."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from tests.histories import audit, flows
from tests.histories.actions import Action
from tests.histories.drawing import Mood
from tests.histories.flows import Flow
from tests.histories.hands import Hand
from tests.histories.history import Divergence, History
from tests.histories.process import Process

STEPS = 40
PROCESSES = 3
AT_ONCE = 12  # actions of each process of a storm
MOST_TRIES = 400  # to make a history shorter

Step = tuple[int, Action]


class Place(Protocol):
    """A store that can be emptied, and looked at."""

    url: str

    def empty(self) -> None:
        """Begin anew."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What its tables hold."""


class Told(NamedTuple):
    """A history as it was played, and how it ended."""

    flow: Flow
    steps: Sequence[Step]
    problem: str = ""

    def __str__(self) -> str:
        lines = [f"{self.flow.name}: {self.flow.works}", f"datasets: {self.flow.datas}", f"slots: {self.flow.slots}"]
        lines += [f"  {number}: {action.kind} {action.of}" for number, action in self.steps]
        return "\n".join([*lines, self.problem])


class Stage:
    """A store and those who act on it: alone, or several processes."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._alone = Hand()
        self._processes: list[Process] = []

    def close(self) -> None:
        """All leave."""
        self._alone.close()
        for process in self._processes:
            process.close()

    def hands(self, n: int) -> Sequence[Hand | Process]:
        """So many who act on an empty store."""
        self.place.empty()
        if n == 1:
            self._alone.open(self.place.url)
            return [self._alone]
        while len(self._processes) < n:
            self._processes.append(Process())
        for process in self._processes[:n]:
            process.open(self.place.url)
        return self._processes[:n]

    # Histories -------------------------------------------------------------------------------------------------------

    def history(self, seed: str) -> Told:
        """Play the history of a seed."""
        rng = random.Random(seed)
        flow, mood = flows.drawn(rng), Mood(rng)
        n = rng.choice([1, 1, PROCESSES])
        steps: list[Step] = []

        def drawn(history: History) -> Iterator[Step]:
            for _ in range(STEPS):
                steps.append((rng.randrange(n), history.draw(rng, mood)))
                yield steps[-1]

        return Told(flow, steps, self._problem(flow, n, drawn))

    def again(self, told: Told) -> Told:
        """Play a history as it was told."""
        n = max((number for number, _ in told.steps), default=0) + 1
        return told._replace(problem=self._problem(told.flow, n, lambda history: iter(told.steps)))

    def _problem(self, flow: Flow, n: int, drawn: Callable[[History], Iterator[Step]]) -> str:
        hands = self.hands(n)
        history = History(flow, hands, self.place.rows)
        try:
            for number, action in drawn(history):
                history.step(number, action)
            history.conclude()
        except Divergence as divergence:
            return str(divergence)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "; ".join(_breaches(hands[0]))

    def shortest(self, told: Told) -> Told:
        """The same failure, or another, with as little as can be."""
        return shortest(told, self.again)

    # Storms ----------------------------------------------------------------------------------------------------------

    def storm(self, seed: str) -> Told:
        """Several processes at once, none waiting for another; what must be true whatever came first."""
        rng = random.Random(seed)
        flow, mood = flows.drawn(rng), Mood(rng)
        hands = self.hands(PROCESSES)
        steps: list[Step] = []
        history = History(flow, hands, self.place.rows)
        try:
            for _ in range(AT_ONCE):
                steps.append((rng.randrange(PROCESSES), history.draw(rng, mood)))
                history.step(*steps[-1])
            slots, running = {history.model.slots, flow.slots}, audit.in_pool(self.place.rows)
            for number, process in enumerate(self._processes):
                process.ask("storm", f"{seed} {number}", flow, AT_ONCE)
            answers = [process.answer_or_error() for process in self._processes]  # all of them, before anybody goes on
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            steps += [(number, Action("storm", tuple(answer))) for number, answer in enumerate(answers)]
            problems = self._after(hands[0])
            if None not in slots and (now := audit.in_pool(self.place.rows)) > max(running, *filter(None, slots), 0):
                problems.append(f"{now} runs in {slots} slots, where {running} were before")
            return Told(flow, steps, "; ".join(problems))
        except Exception as error:
            return Told(flow, steps, f"{type(error).__name__}: {error}")

    def _after(self, hand: Hand | Process) -> list[str]:
        """What is wrong once it is quiet; what can be taken must be what is derived from scratch."""
        rows = self.place.rows
        for verb in ("rescue", "fold"):
            answer = hand.do(verb)
            if answer.no:
                return [f"{verb}: {answer}"]
        problems = _breaches(hand)
        before = audit.candidates(rows)
        hand.do("sql", "update job set modified = modified")
        hand.do("fold")
        after = audit.candidates(rows)
        if before != after:
            problems.append(f"candidates {before}, and derived anew {after}")
        return problems


def shortest(told: Told, again: Callable[[Told], Told]) -> Told:
    """The same failure, or another, with as little as can be."""
    steps, size, tries = list(told.steps), max(len(told.steps) // 2, 1), 0
    while tries < MOST_TRIES:
        start, before = 0, len(steps)
        while start < len(steps) and tries < MOST_TRIES:
            tries += 1
            shorter = again(told._replace(steps=steps[:start] + steps[start + size :]))
            if shorter.problem:
                told, steps = shorter, list(shorter.steps)
            else:
                start += size
        if size == 1 and len(steps) == before:
            break
        size = max(size // 2, 1)
    return told


def _breaches(hand: Hand | Process) -> list[str]:
    """What the auditor finds."""
    answer = hand.do("breaches")
    return [str(answer)] if answer.no else answer.value


@contextmanager
def staged(place: Place) -> Iterator[Stage]:
    """A stage, until the block ends."""
    stage = Stage(place)
    try:
        yield stage
    finally:
        stage.close()
