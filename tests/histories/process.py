"""A hand in a process of its own: python -m tests.histories.process

It reads requests from its input, each a pickled (method, arguments), and answers each on its output.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from tests.histories.hands import Answer, Hand

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds: who has not answered then waits for somebody who waits for him


class Process:
    """A hand in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.histories.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )

    def ask(self, name: str, *arguments: Any) -> None:
        """Begin something, without waiting for its answer."""
        assert self._process.stdin is not None
        _write(self._process.stdin, (name, arguments))

    def answer(self) -> Any:
        """What came of it."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise TimeoutError(f"process {self._process.pid} has not answered for {PATIENCE} seconds")
        is_right, value = _read(self._process.stdout)
        if not is_right:
            raise RuntimeError(f"a process found what is no answer:\n{value}")
        return value

    def answer_or_error(self) -> Any:
        """The same, with what is no answer as the error that it is."""
        try:
            return self.answer()
        except (RuntimeError, TimeoutError) as error:
            return error

    def open(self, url: str) -> None:
        """Work on this store from now on."""
        self.ask("open", url)
        self.answer()

    def do(self, verb: str, *arguments: Any) -> Answer:
        """One verb."""
        self.ask("do", verb, *arguments)
        answer: Answer = self.answer()
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _write(to: BinaryIO | Any, what: object) -> None:
    data = pickle.dumps(what)
    to.write(struct.pack(">I", len(data)) + data)
    to.flush()


def _read(source: BinaryIO | Any) -> Any:
    (length,) = struct.unpack(">I", source.read(4))
    return pickle.loads(source.read(length))


def main() -> None:
    """The process: until its input ends."""
    hand = Hand()
    to = sys.stdout.buffer
    while head := sys.stdin.buffer.read(4):
        name, arguments = pickle.loads(sys.stdin.buffer.read(*struct.unpack(">I", head)))
        try:
            _write(to, (True, getattr(hand, name)(*arguments)))
        except Exception:
            _write(to, (False, traceback.format_exc()))
    hand.close()


if __name__ == "__main__":
    main()
