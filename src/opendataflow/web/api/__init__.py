"""The API of the console: the facts and verbs of the command line, for programs."""

from __future__ import annotations

from .description import every as router

__all__ = ["router"]
