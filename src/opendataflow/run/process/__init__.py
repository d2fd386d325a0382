"""Runs one command: its words, its processes, its output and its log."""
