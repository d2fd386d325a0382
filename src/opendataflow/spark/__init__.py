"""The only room that imports pyspark: session, dataset readers and writers, copy, audit, running job code."""

from __future__ import annotations

TAG = "odf_dataid"  # the column that says which chunk of a batch a row belongs to; job code sees it
