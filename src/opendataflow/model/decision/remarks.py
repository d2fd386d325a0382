"""Format remarks on published versions: rejected rows and checks that only warn."""

from __future__ import annotations

from collections.abc import Mapping

from .manifest import CheckResult, Manifest

QUARANTINE = "quarantine"  # the kind of the result with the number of rejected rows


def remarks(manifests: Mapping[str, Manifest]) -> str:
    """The remarks on the outputs of one run, in one line; empty if there are none."""
    texts = (
        f"{datasetid}: {_remark(result)}"
        for datasetid, manifest in manifests.items()
        for result in manifest.checks
        if result.kind == QUARANTINE or not (result.passed or result.refuses)
    )
    return "; ".join(texts)


def described(result: CheckResult) -> str:
    """A check result in one line."""
    if result.kind == QUARANTINE:
        return f"{QUARANTINE}: {_rejected_rows(result)}"
    texts = ", ".join(f"{key} {_shown(value)}" for key, value in result.figures.items() if value not in (None, [], {}))
    return f"{result.check}: {texts}" if texts else result.check


def _remark(result: CheckResult) -> str:
    return _rejected_rows(result) if result.kind == QUARANTINE else f"warning: {described(result)}"


def _rejected_rows(result: CheckResult) -> str:
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
