"""Sending: nobody who tells something ever waits, and what is not sent is counted."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from opendataflow.lineage.sending import Client, EventFile, EventSender, http_transport
from tests.support.openlineage import lineage_server


class Played:
    """A place that keeps what it gets, or raises, or does not come back until it is let go."""

    name, is_dear = "played", False

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.go, self.came = threading.Event(), threading.Event()
        self.go.set()
        self.problem: Exception | None = None

    def open(self) -> None:
        pass

    def send(self, events: Any) -> None:
        self.came.set()
        self.go.wait()
        if self.problem is not None:
            raise self.problem
        self.got += events


def ended(sender: EventSender, seconds: float = 60.0) -> tuple[int, int]:
    sender.finish()
    sender.wait(seconds)
    return sender.sent, sender.dropped


def test_everything_arrives_in_order() -> None:
    place = Played()
    sender = EventSender(place, print)
    for number in range(1200):
        sender.put(lambda number=number: str(number))  # type: ignore[misc]
    assert ended(sender) == (1200, 0)
    assert place.got == [str(number) for number in range(1200)]


def test_a_full_queue_drops_what_comes_and_counts_it() -> None:
    place = Played()
    place.go.clear()
    sender = EventSender(place, print, most=5)
    sender.put(str)
    place.came.wait()  # it holds one, and does not come back
    for _ in range(8):
        sender.put(str)
    assert sender.dropped == 3
    place.go.set()
    assert ended(sender) == (6, 3)


def test_a_place_that_hangs_is_left_and_the_rest_is_counted_as_dropped() -> None:
    place = Played()
    place.go.clear()
    sender = EventSender(place, print)
    sender.put(str)
    place.came.wait()
    sender.put(str)
    assert ended(sender, 0.0) == (0, 2)
    place.go.set()


def test_what_fails_is_said_once_and_counted() -> None:
    said: list[str] = []
    place = Played()
    place.problem = OSError("the disk is full\nreally")
    sender = EventSender(place, said.append)
    place.go.clear()
    sender.put(str)
    place.came.wait()
    sender.put(str)
    sender.finish()
    place.go.set()
    assert ended(sender) == (0, 2)
    assert said == ["lineage events do not reach played: OSError: the disk is full. really"]


def test_an_event_that_cannot_be_made_is_dropped_and_no_other() -> None:
    place = Played()
    place.is_dear = True  # one by one
    sender = EventSender(place, lambda line: None)
    sender.put(lambda: str(1 / 0))
    sender.put(lambda: "2")
    assert ended(sender) == (1, 1)
    assert place.got == ["2"]


def test_a_file_gets_one_line_for_each_event_and_keeps_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "made" / "lineage.jsonl"
    for _ in range(2):
        sender = EventSender(EventFile(file), print)
        for number in range(3):
            sender.put(lambda number=number: json.dumps({"n": number, "text": "ä\n"}))  # type: ignore[misc]
        assert ended(sender) == (3, 0)
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [0, 1, 2, 0, 1, 2]


def test_http_sends_the_key_and_a_refusal_is_counted() -> None:
    with lineage_server() as server:
        place = Client("there", lambda: http_transport(server.url, "api/v1/lineage", "k3y"))
        sender = EventSender(place, print)
        sender.put(lambda: '{"n": 1}')
        assert ended(sender) == (1, 0)
        assert (server.events, server.paths) == ([{"n": 1}], ["/api/v1/lineage"])
        assert server.headers[0]["Authorization"] == "Bearer k3y"
        server.status = 500
        refused = EventSender(place, lambda line: None)
        refused.put(lambda: '{"n": 2}')
        assert ended(refused) == (0, 1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no.such.host.invalid"])
def test_a_server_that_is_away_is_counted(url: str) -> None:
    said: list[str] = []
    sender = EventSender(Client(url, lambda: http_transport(url, "x", "k3y")), said.append)
    sender.put(lambda: "{}")
    assert ended(sender) == (0, 1)
    assert len(said) == 1
    assert "k3y" not in said[0]
