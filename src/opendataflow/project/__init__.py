"""Reads dataflow.toml and finds job code by name."""

from __future__ import annotations

from .declared import Environment, Project, Trust
from .jobcode import code_of, is_for_spark
from .loading import find, load, without_file
from .locations import check_places, is_inside, leads_outside, location_of, misplaced, resolve_location, roots_of

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
    "resolve_location",
    "roots_of",
    "without_file",
]
