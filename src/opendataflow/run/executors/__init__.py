"""Executors: how the work of an attempt is done. The order around it is in attempt.py."""
