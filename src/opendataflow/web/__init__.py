"""The console: the same answers and verbs as the terminal, for a browser. The only room that imports a web framework."""
