"""The pages of the console: each parses its address, calls one function and shows what it says."""
