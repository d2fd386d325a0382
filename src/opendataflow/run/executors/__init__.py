"""The executors, which do the work of attempts; attempt.py defines the lifecycle around them."""
