"""Shared by attempts and landing: run context, lease, end of an attempt, sandbox, services and contract."""
