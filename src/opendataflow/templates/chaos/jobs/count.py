"""One row for each chunk: how many rows it has."""

from pyspark.sql import DataFrame

from opendataflow import job


@job(reads="raw", writes="counted")
def count(raw: DataFrame) -> DataFrame:
    return raw.groupBy("dataid").count().coalesce(1)
