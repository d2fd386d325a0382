"""Seen: what a look asks a store for. The store itself answers as of now, and `then` as of a moment of the past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..model import Catalogue, Consumed
from ..store import Chunk, Event, FirstAndLast, InputRow, Position, Published, Recalled, Remarked, Run
from ..store.views import ChunkStatus


class StoreViews(Protocol):
    """The answers that the matrix, the flow and an explanation are made of."""

    def catalogue(self) -> Catalogue:
        """All datasets, jobs and pools."""

    def clock(self) -> float:
        """The moment of the look, in seconds since 1970."""

    def chunk(self, datasetid: str, dataid: str) -> Chunk | None:
        """One chunk as a product."""

    def chunks(
        self, datasetid: str, *, status: str | None = None, after: Chunk | None = None, n: int = 1000
    ) -> list[Chunk]:
        """A page of a dataset's chunks in the order of their dataids."""

    def given_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The statuses of these chunks."""

    def ends_given(self, spans: Sequence[tuple[str, str, str]]) -> list[FirstAndLast]:
        """The first and the last dataid of each span."""

    def chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Position]:
        """At most n chunks between two positions."""

    def chunks_within(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[ChunkStatus]:
        """At most so many chunks of these spans, with their statuses."""

    def span_counts(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[dict[str, int]]:
        """How many chunks each span has, in all (under "") and by status other than READY."""

    def refusals(self) -> list[Event]:
        """Chunks whose last delivery or attempt was refused for what the data is."""

    def remarked(self) -> list[Remarked]:
        """READY chunks that were published with a remark."""

    def manifests(self, datasetid: str, dataid: str) -> list[Published]:
        """All manifests of a chunk, newest first."""

    def inputs_of(self, runid: int | None) -> tuple[Consumed, ...]:
        """The versions that a run read."""

    def runs(self, *, jobid: str | None = None, dataid: str | None = None, n: int = 20) -> list[Run]:
        """Attempts, newest first."""

    def last_events(self, datasetid: str, dataid: str, n: int = 100) -> list[Event]:
        """The last events of one chunk, newest first."""

    def readers(self, datasetid: str, dataid: str) -> list[InputRow]:
        """Every job's relation to one chunk."""

    def recalled(self, chunks: Iterable[tuple[str, str]]) -> list[Recalled]:
        """The versions of these chunks that were recalled."""

    def readers_running(self, datasetid: str) -> int | None:
        """How many running chunks read a dataset; None where that is not known."""
