"""The only room that decrypts: values under a key, the key itself, and keeping both out of everything else."""

from __future__ import annotations

from ..tokens import REDACTED, holds_secret, is_bound, is_java, is_secret_name, is_token, without_secrets
from .file import secret_file, sweep_secret_files
from .key import KEY_VARIABLES, NEW, Key, child_environment, find_key, require_key, required
from .redaction import Hidden, Redactor
from .taken import Taken, take, workers_password
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
    "REDACTED",
    "STORE_CONTEXT",
    "TODAY",
    "Hidden",
    "Key",
    "Redactor",
    "Taken",
    "child_environment",
    "dataset_context",
    "decrypt",
    "encrypt",
    "encrypt_as_java",
    "find_key",
    "form_of",
    "holds_secret",
    "is_bound",
    "is_java",
    "is_secret_name",
    "is_token",
    "lineage_context",
    "needs_rekey",
    "notify_context",
    "rekey",
    "require_key",
    "required",
    "secret_file",
    "sweep_secret_files",
    "take",
    "without_secrets",
    "workers_password",
]
