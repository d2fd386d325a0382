"""The only room that knows the order: claim, gate, execute, audit, commit."""
