"""Spark, in Python: a function from the DataFrames of one chunk to the DataFrame that is published."""

from opendataflow import job


@job(reads="orders_raw", writes="orders")
def clean_orders(orders_raw, chunk):
    """The orders of one day that were not called off; the arguments are named after what is read."""
    chunk.log.info("cleaning %s", chunk.dataid)
    return orders_raw.where("amount IS NOT NULL")
