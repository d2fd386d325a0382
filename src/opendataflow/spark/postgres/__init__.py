"""Tables in PostgreSQL: Arrow record batches in both directions through ADBC, and chunks that are replaced atomically."""

from __future__ import annotations

from .loading import LoadResult, drop_staging, publish_table, stage_table
from .problems import named_error
from .reading import EVERY_ROW, BatchPart, RowRange, read_parts, read_table

__all__ = [
    "EVERY_ROW",
    "BatchPart",
    "LoadResult",
    "RowRange",
    "drop_staging",
    "named_error",
    "publish_table",
    "read_parts",
    "read_table",
    "stage_table",
]
