"""Connections to SQLite and PostgreSQL, schema migrations, column types."""
