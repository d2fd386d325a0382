"""Unleash: which secrets the auditor looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.chaos.plan import Settings
from opendataflow.chaos.unleash import ChaosRequest, secrets_of
from opendataflow.project import without_file


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
    asked = ChaosRequest(without_file(tmp_path, None), url, password, Settings())
    assert secrets_of(asked) == expected
