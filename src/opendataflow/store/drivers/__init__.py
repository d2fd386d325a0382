"""Connect to SQLite and PostgreSQL behind one contract: transactions of named queries, schema, and typed SQL."""
