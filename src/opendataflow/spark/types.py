"""Spark's own classes, for rooms that name them but may not import pyspark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

__all__ = ["DataFrame", "SparkSession"]
