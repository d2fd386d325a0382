"""Diff: how one published version of a chunk differs from another, by what was recorded when they were published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataNotReady, UsageError
from ..model import CheckResult, check_dataid
from ..model.definitions.ddl import column_differences, columns_of
from ..store import Published, Store

if TYPE_CHECKING:
    from ..spark.comparing_rows import Compared
    from .diff_rows import Comparing


class ChangedFact(NamedTuple):
    """One fact that is not the same in both versions; None is not recorded."""

    what: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Diff:
    """Two versions of a chunk: the columns and facts that differ, whether the content is the same, if that is known,
    and how their rows compare, where that was asked for.
    """

    datasetid: str
    dataid: str
    before: Published
    after: Published
    columns: tuple[str, ...]
    facts: tuple[ChangedFact, ...]
    checks: tuple[ChangedFact, ...]
    inputs: tuple[ChangedFact, ...]
    is_same_content: bool | None
    rows: Compared | None = None


def diff(
    store: Store,
    datasetid: str,
    dataid: str,
    first: int | None = None,
    second: int | None = None,
    *,
    comparing: Comparing | None = None,
) -> Diff:
    """How the second version differs from the first: without numbers, the current one from the one before.

    Everything comes from the manifests; rows are read only where it is said how to compare them.
    """
    dataset = store.catalogue().dataset(datasetid)
    check_dataid(dataset.partition, dataid, datasetid)
    versions = {each.version: each for each in store.views.manifests(datasetid, dataid)}
    chunk = store.views.chunk(datasetid, dataid)
    if first is not None and second is None:
        second, first = (chunk.version if chunk else None), first
    if first is None:
        second = chunk.version if chunk else max(versions, default=None)
        first = max((version for version in versions if second is not None and version < second), default=None)
    known = ", ".join(map(str, sorted(versions))) or "none"
    if first is None or second is None:
        raise DataNotReady(
            f"{datasetid} {dataid} has no two versions to compare", hint=f"Its published versions: {known}."
        )
    for version in (first, second):
        if version not in versions:
            raise UsageError(f"{datasetid} {dataid} has no version {version}", hint=f"Its published versions: {known}.")
    before, after = versions[first], versions[second]
    rows = None
    if comparing is not None:
        from .diff_rows import compared  # here, since manifests need no project and no files

        rows = compared(store, dataset, before, after, comparing)
    return Diff(
        datasetid,
        dataid,
        before,
        after,
        tuple(_columns(before, after)),
        tuple(_facts(before, after)),
        tuple(_checks(before, after)),
        tuple(_inputs(store, before, after)),
        before.manifest.is_same_content(after.manifest.fingerprint),
        rows,
    )


def _columns(before: Published, after: Published) -> Iterator[str]:
    old, new = columns_of(before.manifest.schema), columns_of(after.manifest.schema)
    if not old or not new:
        return
    yield from column_differences(old, new)
    common = [name for name in old if name in new]
    if common != [name for name in new if name in old]:
        yield f"the order was {', '.join(old)} and is {', '.join(new)}"


def _facts(before: Published, after: Published) -> Iterator[ChangedFact]:
    for name in ("rows", "bytes", "span_lower", "span_upper", "fingerprint", "format", "location"):
        old, new = getattr(before.manifest, name) or None, getattr(after.manifest, name) or None
        if old != new:
            yield ChangedFact(name.replace("_", " "), old, new)
    old_files, new_files = len(before.manifest.files), len(after.manifest.files)
    if old_files != new_files:
        yield ChangedFact("files", old_files, new_files)


def _checks(before: Published, after: Published) -> Iterator[ChangedFact]:
    old, new = ({each.check: each for each in version.manifest.checks} for version in (before, after))
    for name in dict.fromkeys((*old, *new)):
        was, now = _told(old.get(name)), _told(new.get(name))
        if was != now:
            yield ChangedFact(name, was, now)


def _told(result: CheckResult | None) -> Mapping[str, object] | None:
    return None if result is None else {"passed": result.passed, **result.figures}


def _inputs(store: Store, before: Published, after: Published) -> Iterator[ChangedFact]:
    old, new = (
        {each[:2]: each.version for each in store.views.inputs_of(version.runid)} for version in (before, after)
    )
    for chunk in dict.fromkeys((*old, *new)):
        if old.get(chunk) != new.get(chunk):
            yield ChangedFact(" ".join(chunk), old.get(chunk), new.get(chunk))
