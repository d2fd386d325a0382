"""What is asked after a storm: which errors nobody named, and which secrets may be nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.chaos.plan import Settings
from opendataflow.chaos.unleash import Asked, secrets_of, unnamed
from opendataflow.project import without_file
from opendataflow.store.backend import Unreadable


def test_an_error_that_nobody_named_is_seen_among_what_a_worker_said() -> None:
    problem = Unreadable("CHECK constraint failed: run")
    row = f"run 7: {problem.name}: {problem.message}"
    said = f"drained 1\nTraceback (most recent call last):\nINTERNAL: KeyError\n{row}\nrun 3: LEASE_LOST: too late\n"
    assert unnamed(said) == ["Traceback (most recent call last):", "INTERNAL: KeyError", row]


@pytest.mark.parametrize(
    ("url", "password", "expected"),
    [
        ("sqlite:///dataflow.db", None, []),
        ("postgresql://u@h/db", "kept-encrypted", ["kept-encrypted"]),
        ("postgresql://u:in%20the-address@h/db", None, ["in%20the-address", "in the-address"]),
        ("postgresql://h/db?password=in-the-address", None, ["in-the-address"]),
        ("postgresql://postgres:postgres@h/db", None, []),
        ("postgresql://u:abc@h/db", None, []),
    ],
)
def test_a_password_is_looked_for_wherever_it_was_given(
    tmp_path: Path, url: str, password: str | None, expected: list[str]
) -> None:
    asked = Asked(without_file(tmp_path, None), url, password, Settings())
    assert secrets_of(asked) == expected
