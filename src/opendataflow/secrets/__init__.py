"""The only room that decrypts: values under a key, the key itself, and keeping both out of everything else."""

from __future__ import annotations

from .file import secret_file, sweep_secret_files
from .key import KEY_VARIABLES, Key, child_environment, find_key, require_key
from .plaintext import holds_password, is_password_name
from .redaction import REDACTED, Redactor
from .token import STORE_CONTEXT, dataset_context, decrypt, encrypt, is_java, needs_rekey, rekey

__all__ = [
    "KEY_VARIABLES",
    "REDACTED",
    "STORE_CONTEXT",
    "Key",
    "Redactor",
    "child_environment",
    "dataset_context",
    "decrypt",
    "encrypt",
    "find_key",
    "holds_password",
    "is_java",
    "is_password_name",
    "needs_rekey",
    "rekey",
    "require_key",
    "secret_file",
    "sweep_secret_files",
]
