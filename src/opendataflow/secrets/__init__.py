"""Encrypts and decrypts values, reads the key, and keeps secrets out of all output. No other package decrypts."""

from __future__ import annotations

from ..tokens import is_bound, is_java, is_token
from .file import secret_file, sweep_secret_files
from .key import KEY_VARIABLES, NEW, Key, child_environment, find_key, require_key, required
from .process_key import ProcessKey, pgpassword, take
from .redaction import Hidden, Redactor
from .token import (
    NO_ADDRESS,
    NO_TOKEN,
    STORE_CONTEXT,
    TODAY,
    dataset_context,
    decrypt,
    encrypt,
    encrypt_as_java,
    form_of,
    lineage_context,
    needs_rekey,
    notify_context,
    rekey,
)

__all__ = [
    "KEY_VARIABLES",
    "NEW",
    "NO_ADDRESS",
    "NO_TOKEN",
    "STORE_CONTEXT",
    "TODAY",
    "Hidden",
    "Key",
    "ProcessKey",
    "Redactor",
    "child_environment",
    "dataset_context",
    "decrypt",
    "encrypt",
    "encrypt_as_java",
    "find_key",
    "form_of",
    "is_bound",
    "is_java",
    "is_token",
    "lineage_context",
    "needs_rekey",
    "notify_context",
    "pgpassword",
    "rekey",
    "require_key",
    "required",
    "secret_file",
    "sweep_secret_files",
    "take",
]
