"""Budgets as reservations shared by all processes."""
