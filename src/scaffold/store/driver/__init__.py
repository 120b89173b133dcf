"""Connections to SQLite and PostgreSQL: transactions, schema migrations, and how values become columns."""
