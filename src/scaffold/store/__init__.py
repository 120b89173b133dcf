"""Persistence: named SQL, one repository class per aggregate, events in the same transaction as the change."""
