"""Budgets as reservations in a database, shared by all processes of a run or session."""
