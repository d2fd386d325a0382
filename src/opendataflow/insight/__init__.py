"""Reads for humans: what there is, what stands in the way, and how it came to be."""
