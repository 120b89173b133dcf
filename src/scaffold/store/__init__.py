"""The one place of truth: named SQL, one repository per aggregate, events in the same transaction as the change."""
