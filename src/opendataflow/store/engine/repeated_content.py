"""Find chunks with the same content as another chunk of their dataset, and decide which of them are wrong.

A repeated delivery is wrong. A repeated job output is wrong only if its inputs repeat too; an output whose inputs are
unknown counts as a delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import WrongData
from ...model import Dataset, Manifest
from ..drivers.base import Transaction
from ..records import link
from ..rows import compact
from ..version_records import VersionId

_MOST_COMPARED = 100  # candidates with the same content whose inputs are compared


class Repeat(WrongData):
    """A chunk has the same content as another chunk."""

    def __init__(self, message: str, *, hint: str, dataid: str) -> None:
        super().__init__(message, hint=hint)
        self.dataid = dataid


class Product(NamedTuple):
    """A chunk with its content, and the run that produced it, if any."""

    datasetid: str
    dataid: str
    fingerprint: str
    runid: int | None


class Repeated(NamedTuple):
    """The chunk with the same content as a product, and whether the product is wrong."""

    dataid: str
    is_wrong: bool


def repeated(
    tx: Transaction, dataset: Dataset, product: Product, published_with_it: Sequence[Product] = ()
) -> Repeated | None:
    """The chunk with the same content as a product, stored or published in the same transaction; None if there is none."""
    same = {"datasetid": product.datasetid, "dataid": product.dataid, "fingerprint": product.fingerprint}
    content = (product.datasetid, product.fingerprint)
    together = [other for other in published_with_it if (other.datasetid, other.fingerprint) == content]
    stored = tx.value("same_content", **same)
    if stored is None and not together:
        return None
    first = stored or together[0].dataid
    contents = known_contents(tx.fetch, product.runid)
    if dataset.options.get("repeats") is False or not contents:
        return Repeated(first, True)
    for other in together:
        if known_contents(tx.fetch, other.runid).keys() == contents.keys():
            return Repeated(other.dataid, True)
    # Start from an input with the same dataid: fewer chunks are made from it than from inputs that all share.
    (in_datasetid, in_fingerprint) = min(contents, key=lambda content: (contents[content] != product.dataid, content))
    entry = {"in_datasetid": in_datasetid, "in_fingerprint": in_fingerprint, "n": _MOST_COMPARED}
    others = tx.fetch(VersionId._make, "same_content_from", **same, **entry)
    links = tx.fetch(link, "links_into_given", versions=compact(others)) if others else []
    for version in others:
        into = (item for item in links if (item.dataid, item.version) == (version.dataid, version.version))
        if {(item.in_datasetid, item.in_fingerprint) for item in into if item.in_fingerprint} == contents.keys():
            return Repeated(version.dataid, True)
    return Repeated(first, False)


def wrong_repeat_of(
    tx: Transaction, dataset: Dataset | None, dataid: str, manifest: Manifest | None, runid: int | None
) -> str | None:
    """The chunk with the same content as a version that a run published, if that makes the version wrong."""
    if dataset is None or manifest is None or manifest.fingerprint is None:
        return None
    found = repeated(tx, dataset, Product(dataset.datasetid, dataid, manifest.fingerprint, runid))
    return found.dataid if found is not None and found.is_wrong else None


class InputContent(NamedTuple):
    """The content of an input, and the chunk that has it."""

    datasetid: str
    fingerprint: str
    dataid: str


def known_contents(fetch: Callable[..., list[InputContent]], runid: int | None) -> dict[tuple[str, str], str]:
    """The known contents of what a run read, each with the dataid that has it; `fetch` runs a query.

    A product without known inputs counts as a delivery: its inputs may have other content now.
    """
    rows = fetch(InputContent._make, "contents_of_run", runid=runid)
    return {(row.datasetid, row.fingerprint): row.dataid for row in rows}


def refuse_repeat(
    tx: Transaction, datasetid: str, dataid: str, fingerprint: str, announced_with_it: dict[str, str]
) -> None:
    """Raise Repeat if another chunk of the dataset, stored or announced together with it, has the same content."""
    stored = tx.value("same_content", datasetid=datasetid, dataid=dataid, fingerprint=fingerprint)
    other = stored or announced_with_it.setdefault(fingerprint, dataid)
    if other != dataid:
        raise Repeat(
            f"{datasetid} {dataid} has exactly the content of {datasetid} {other}",
            hint="Check that the file is the right one. To allow repeats, set repeats = true on the dataset.",
            dataid=dataid,
        )
