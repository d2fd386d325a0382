"""Define datasets, jobs, partitions, mappings, checks, pools, and the catalogue of all of them."""
