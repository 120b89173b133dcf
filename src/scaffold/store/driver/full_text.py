"""Queries of full-text search that mean the same to SQLite and PostgreSQL."""

from collections.abc import Iterable


def any_of(words: Iterable[str]) -> str:
    """Return the query for texts with any of the words; empty without words. In quotes, no word is an operator."""
    return " OR ".join(f'"{word}"' for word in words if word.isalnum())


def all_of(words: Iterable[str]) -> str:
    """Return the query for texts with all of the words; empty without words."""
    return " ".join(f'"{word}"' for word in words if word.isalnum())
