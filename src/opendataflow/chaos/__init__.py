"""Breaks the software on purpose: on a scratch of the user's own store, disk and Spark, and reports what became of it."""
