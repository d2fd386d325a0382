"""Decide whether a chunk may run: facts in, receipt out; with the statuses and lock tables."""
