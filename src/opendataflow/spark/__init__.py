"""The only room that imports pyspark: session, dataset readers and writers, copy, audit, running job code."""
