"""Tables in PostgreSQL: Arrow record batches in both directions through ADBC, and chunks that are replaced atomically."""

from __future__ import annotations

from .loading import LoadResult, drop_staging, load_table, publish_table, stage_table
from .problems import named_error
from .reading import ChunkStats, Part, chunk_stats, count_rows, read_parts, read_table

__all__ = [
    "ChunkStats",
    "LoadResult",
    "Part",
    "chunk_stats",
    "count_rows",
    "drop_staging",
    "load_table",
    "named_error",
    "publish_table",
    "read_parts",
    "read_table",
    "stage_table",
]
