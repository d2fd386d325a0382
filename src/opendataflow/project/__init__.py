"""Reads dataflow.toml, finds job code by name, and decides which definitions are trusted."""

from __future__ import annotations

from .config import refuse_foreign
from .job_code import code_of, is_for_spark
from .loader import find, load, without_file
from .locations import check_places, is_inside, leads_outside, location_of, misplaced, resolve_location, roots_of
from .settings import Environment, Project, Trust

__all__ = [
    "Environment",
    "Project",
    "Trust",
    "check_places",
    "code_of",
    "find",
    "is_for_spark",
    "is_inside",
    "leads_outside",
    "load",
    "location_of",
    "misplaced",
    "refuse_foreign",
    "resolve_location",
    "roots_of",
    "without_file",
]
