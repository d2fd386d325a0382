"""Opens a store for a Python program and redacts the secrets of its environment in stored reasons."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..store import Store
from ..store import open_store as _open_store
from ..tokens import redacted_reason
from .key import secret_names
from .process_key import ProcessKey


def open_store(
    url: str,
    *,
    create: bool = False,
    check: bool = True,
    password: str | None = None,
    who: str | None = None,
    patience: float = 60.0,
    say: Callable[[str], None] | None = None,
    environment: Callable[[], str | None] = lambda: None,
) -> Store:
    """Open the store at sqlite:///path or postgresql://user@host/database; create=True creates missing tables.

    `environment` returns the name of the caller's environment before the first write; the store of another environment
    refuses the write.
    Reasons are stored without PGPASSWORD, the password and the key of PASSKEY or PASSKEY_FILE; PASSKEY_COMMAND is not run.
    """
    variables = {name: os.environ[name] for name in secret_names(os.environ) if not name.endswith("_COMMAND")}
    key = ProcessKey(variables, {})
    key.find_keys()
    key.hidden.add_address(url)
    key.hidden.add(password or "")
    store = _open_store(
        url,
        create=create,
        check=check,
        password=password,
        who=who,
        patience=patience,
        say=say,
        environment=environment,
    )
    store.redact = lambda text: redacted_reason(key.hidden.redact(text))
    return store
