// Keys that work on every page.
