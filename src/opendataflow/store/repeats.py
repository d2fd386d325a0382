"""Repeats: chunks that have exactly the content of another chunk of their dataset, and which of these are wrong.

What arrives from outside is wrong when it repeats. What a job made is wrong only when it was also made from the same content;
where nothing is known of what it was made from, it counts as an arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import WrongData
from ..model import Consumed, Dataset, Manifest
from ..shapes import NamedTuple
from .backend import Transaction
from .links import VersionId
from .records import ReadRow, link
from .rows import compact

_MOST_COMPARED = 100  # chunks with the same content whose inputs are compared


class Repeat(WrongData):
    """A chunk has the content of another one."""

    def __init__(self, message: str, *, hint: str, dataid: str) -> None:
        super().__init__(message, hint=hint)
        self.dataid = dataid


class Product(NamedTuple):
    """A chunk that a run made: its content, and what it was made from."""

    datasetid: str
    dataid: str
    fingerprint: str
    inputs: Sequence[Consumed]


class Repeated(NamedTuple):
    """The chunk whose content a product has, and whether that makes the product wrong."""

    dataid: str
    is_wrong: bool


def repeated(
    tx: Transaction, dataset: Dataset, product: Product, published_with_it: Sequence[Product] = ()
) -> Repeated | None:
    """Which chunk has the content of a product already, also among those of the same transaction; None when none has."""
    same = {"datasetid": product.datasetid, "dataid": product.dataid, "fingerprint": product.fingerprint}
    content = (product.datasetid, product.fingerprint)
    beside = [other for other in published_with_it if (other.datasetid, other.fingerprint) == content]
    stored = tx.value("same_content", **same)
    if stored is None and not beside:
        return None
    first = stored or beside[0].dataid
    read = _known_contents(tx, product.inputs)
    if dataset.options.get("repeats") is False or not read:
        return Repeated(first, True)
    for other in beside:
        if _known_contents(tx, other.inputs).keys() == read.keys():
            return Repeated(other.dataid, True)
    # An input of the same dataid first: few chunks are made from it, while all of them may share the others.
    (in_datasetid, in_fingerprint) = min(read, key=lambda content: (read[content] != product.dataid, content))
    entry = {"in_datasetid": in_datasetid, "in_fingerprint": in_fingerprint, "n": _MOST_COMPARED}
    others = tx.fetch(VersionId._make, "same_content_from", **same, **entry)
    links = tx.fetch(link, "links_into_given", versions=compact(others)) if others else []
    for version in others:
        into = (item for item in links if (item.dataid, item.version) == (version.dataid, version.version))
        if {(item.in_datasetid, item.in_fingerprint) for item in into if item.in_fingerprint} == read.keys():
            return Repeated(version.dataid, True)
    return Repeated(first, False)


def wrong_repeat_of(tx: Transaction, dataset: Dataset | None, dataid: str, manifest: Manifest | None) -> str | None:
    """The chunk whose content a published version has, where that makes it wrong."""
    if dataset is None or manifest is None or manifest.fingerprint is None:
        return None
    found = repeated(tx, dataset, Product(dataset.datasetid, dataid, manifest.fingerprint, manifest.inputs))
    return found.dataid if found is not None and found.is_wrong else None


def _known_contents(tx: Transaction, inputs: Sequence[Consumed]) -> dict[tuple[str, str], str]:
    """The contents of these inputs as far as they are known, each with the dataid that has it."""
    given = compact([(0, *item) for item in inputs])
    rows = tx.fetch(ReadRow._make, "inputs_given", inputs=given) if inputs else []
    return {(row.datasetid, row.fingerprint): row.dataid for row in rows if row.fingerprint}


def refuse_repeat(
    tx: Transaction, datasetid: str, dataid: str, fingerprint: str, announced_with_it: dict[str, str]
) -> None:
    """Repeat, when another chunk of the dataset stands with exactly this content, or is announced together with it."""
    stored = tx.value("same_content", datasetid=datasetid, dataid=dataid, fingerprint=fingerprint)
    other = stored or announced_with_it.setdefault(fingerprint, dataid)
    if other != dataid:
        raise Repeat(
            f"{datasetid} {dataid} has exactly the content of {datasetid} {other}",
            hint="Is this the right file? If repeats are normal here, set repeats = true on the dataset.",
            dataid=dataid,
        )
