"""Spark, in Python: a function from the DataFrames of one chunk to the DataFrame that is published."""

from pyspark.sql import functions as F

from opendataflow import job


@job
def clean_flights(flights_raw, chunk):
    """The flights that took off, with the columns that are needed further on."""
    chunk.log.info("cleaning %s", chunk.dataid)
    took_off = flights_raw.where("dep_delay IS NOT NULL")
    flight_date = F.make_date("year", "month", "day").alias("flight_date")
    return took_off.select(
        flight_date, "time_hour", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay", "distance"
    )
