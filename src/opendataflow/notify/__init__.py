"""Tells people: looks for what went wrong, keeps it as incidents, and sends messages about it.

Nothing is imported here: the process that sends one message imports this package too, and is to start quickly.
"""
