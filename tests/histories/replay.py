"""One side of a differential run: plays histories and answers with what its store holds afterwards.

python -m tests.histories.replay sqlite|URL

Its input holds pickled (history, every), its output answers each with a pickled dict of plain values: the other end may be another
revision of the program.
"""

from __future__ import annotations

import dataclasses
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

from opendataflow.store import Claim
from tests.histories.actions import Action, called
from tests.histories.hands import Answer, Hand
from tests.histories.playing import PROCESSES, Place
from tests.histories.stores import Postgres, Sqlite, memory

Tables = dict[str, list[dict[str, Any]]]
END = (Action("rescue"), Action("fold"), Action("look"))

COLUMNS = {
    "sqlite": "select m.name, c.name from sqlite_master m join pragma_table_info(m.name) c "
    "where m.type in ('table', 'view') and m.name not like 'sqlite_%' order by m.name, c.cid",
    "postgres": "select table_name::text, column_name::text from information_schema.columns "
    "where table_schema = 'dataflow' order by table_name, ordinal_position",
}


class Player:
    """A store, and the hands that act on it in turn."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._hands = [Hand() for _ in range(PROCESSES)]
        self._columns: dict[str, list[str]] = {}

    def play(self, history: Any, every: bool) -> dict[str, Any]:
        """Play a history; with `every`, the tables are also read after each action."""
        for hand in self._hands:
            hand.close()
        self._place.empty()
        flow, n, steps = history
        hands = self._hands[:n]
        for hand in hands:
            hand.open(self._place.url)
        claims: list[Claim] = []
        answers: list[Answer | None] = [_answer(lambda: hands[0].do("register", flow, flow.works, False, True))]
        events = [self._newest_event()]
        tables = {}
        for number, action in [*steps, *((0, action) for action in END)]:
            request = called(action, flow, claims)
            if request is None:
                answers.append(None)
            else:
                hand = hands[number % n]
                answer = _answer(lambda: hand.do(*request))  # noqa: B023
                if action.kind == "claim" and answer.value is not None:
                    claims += answer.value
                answers.append(answer)
            events.append(self._newest_event())
            if every:
                tables[len(answers) - 1] = self._tables()
        answers.append(_answer(lambda: hands[0].do("breaches")))
        tables[len(answers) - 1] = self._tables()
        return {
            "answers": [answer and (plain(answer.value), answer.no) for answer in answers],
            "events": events,
            "tables": tables,
            "columns": self._columns,
            "now": time.time(),
        }

    def _newest_event(self) -> int:
        return int(self._place.rows("select coalesce(max(eventid), 0) from event")[0][0])

    def _tables(self) -> Tables:
        if not self._columns:
            dialect = "sqlite" if self._place.url.startswith("sqlite") else "postgres"
            for table, column in self._place.rows(COLUMNS[dialect]):
                self._columns.setdefault(table, []).append(column)
        return {
            table: [
                dict(zip(columns, row, strict=True))
                for row in self._place.rows(f"select {', '.join(columns)} from {table}")
            ]
            for table, columns in self._columns.items()
        }


def _answer(do: Callable[[], Answer]) -> Answer:
    """An answer; an error that is no refusal is one as well, by the name of its class."""
    try:
        return do()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return Answer(None, f"error {type(error).__name__}", str(error))


def plain(value: Any) -> Any:
    """The same without classes of this program."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Set):
        return sorted((plain(each) for each in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


@contextmanager
def _place(store: str) -> Iterator[Place]:
    if store == "sqlite":
        with memory() as folder:
            sqlite = Sqlite(folder)
            yield sqlite
            sqlite.close()
    else:
        postgres = Postgres(store)
        yield postgres
        postgres.close()


def main() -> None:
    """Play until the input ends."""
    random.random = lambda: 0.0  # delays of retries without jitter, which would differ between the sides
    with _place(sys.argv[1]) as place:
        player = Player(place)
        while True:
            try:
                history, every = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            pickle.dump(player.play(history, every), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
