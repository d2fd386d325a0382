"""The address of a scratch as a record keeps it: all of it but the passwords."""

from __future__ import annotations

import pytest

from opendataflow.chaos.places import without_password
from opendataflow.tokens import secrets_in


@pytest.mark.parametrize(
    ("address", "shown", "passwords"),
    [
        ("postgresql://u@h/db", "postgresql://u@h/db", []),
        ("postgresql://u:secret@h:5432/db?sslmode=require", "postgresql://u@h:5432/db?sslmode=require", ["secret"]),
        ("postgresql://u:p%40ss@h/db", "postgresql://u@h/db", ["p%40ss", "p@ss"]),
        ("postgresql://u:a:b?c@h/db", "postgresql://u@h/db", ["a:b?c"]),
        ("postgresql://u:h@h/db?host=h", "postgresql://u@h/db?host=h", ["h"]),
        ("postgresql://h/db?password=x&sslpassword=xyz&user=x", "postgresql://h/db?user=x", ["x", "xyz"]),
        ("postgresql://h/db?p%61ssword=secret", "postgresql://h/db", ["secret"]),
        ("postgresql://h:5432/db?user=a@b", "postgresql://h:5432/db?user=a@b", []),
        ("postgresql://h1:1,h2:2/db?user=u@v", "postgresql://h1:1,h2:2/db?user=u@v", []),
        ("postgresql://u:pa/ss@h/db", "postgresql://u@h/db", ["pa/ss"]),
        ("postgresql://[::1]:5432/db?password=q&schema=a", "postgresql://[::1]:5432/db?schema=a", ["q"]),
    ],
)
def test_only_passwords_are_taken_out_of_an_address(address: str, shown: str, passwords: list[str]) -> None:
    assert without_password(address) == shown
    assert set(passwords) <= set(secrets_in(address))
    assert bool(passwords) == bool(secrets_in(address))
