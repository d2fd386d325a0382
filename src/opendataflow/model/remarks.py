"""Remarks: what people should know of a version that was published all the same: rows kept aside, checks that only warn."""

from __future__ import annotations

from collections.abc import Mapping

from .manifest import CheckResult, Manifest

QUARANTINE = "quarantine"  # the kind of the result that says how many rows were kept aside


def remarks(manifests: Mapping[str, Manifest]) -> str:
    """The remarks on what one run published, in one line; empty when there is nothing to say."""
    told = (
        f"{datasetid}: {_remark(result)}"
        for datasetid, manifest in manifests.items()
        for result in manifest.checks
        if result.kind == QUARANTINE or not (result.passed or result.refuses)
    )
    return "; ".join(told)


def described(result: CheckResult) -> str:
    """A result in one line for people."""
    if result.kind == QUARANTINE:
        return f"{QUARANTINE}: {_kept_aside(result)}"
    told = ", ".join(f"{key} {_shown(value)}" for key, value in result.figures.items() if value not in (None, [], {}))
    return f"{result.check}: {told}" if told else result.check


def _remark(result: CheckResult) -> str:
    return _kept_aside(result) if result.kind == QUARANTINE else f"warning: {described(result)}"


def _kept_aside(result: CheckResult) -> str:
    figures = result.figures
    because = figures.get("because")
    why = f": {_shown(because)}" if because else ""
    return f"{figures.get('rejected')} of {figures.get('of')} rows rejected (max {figures.get('max')}){why}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={figure}" for key, figure in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
