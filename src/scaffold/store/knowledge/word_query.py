"""The query of full-text search for some words, without those that are so common that they cost more than they say."""

from collections.abc import Mapping, Sequence

from scaffold.store.driver.connection import Connection
from scaffold.store.driver.full_text import all_of, any_of

MOST_RANKED = 4_000
"""So many chunks are ranked at most, if rarer words leave it at that: each takes about a microsecond."""
COUNT: Mapping[str, str] = {
    "sqlite": """
        SELECT COUNT(*) AS chunks FROM (
            SELECT 1 FROM chunk_words WHERE chunk_words MATCH :query LIMIT :most
        ) AS found""",
    "postgres": """
        SELECT COUNT(*) AS chunks FROM (
            SELECT 1 FROM chunk WHERE words @@ websearch_to_tsquery('english', :query) LIMIT :most
        ) AS found""",
}
"""How many chunks a query finds, counted up to a limit, by dialect."""


def word_query(connection: Connection, words: Sequence[str]) -> str:
    """Return the query for chunks with any of the words; empty without words.

    Of many chunks, those with the rarer words are ranked; if all words are common, those that have several of them.
    """
    counts = {word: _matches(connection, any_of([word])) for word in words if any_of([word])}
    if sum(counts.values()) <= MOST_RANKED:
        return any_of(counts)
    rarest = sorted((word for word in counts if counts[word]), key=lambda word: counts[word])
    kept, ranked = [], 0
    for word in rarest:
        ranked += counts[word]
        if ranked > MOST_RANKED:
            break
        kept.append(word)
    return any_of(kept) if kept else _several_of(connection, rarest)


def _several_of(connection: Connection, rarest: Sequence[str]) -> str:
    """Return the query for chunks with so many of the words that few enough have them; with the rarest if none has."""
    best = any_of(rarest[:1])
    for count in range(2, len(rarest) + 1):
        query = all_of(rarest[:count])
        found = _matches(connection, query)
        if not found:
            return best
        best = query
        if found <= MOST_RANKED:
            return best
    return best


def _matches(connection: Connection, query: str) -> int:
    """Return how many chunks fit a query; one more than MOST_RANKED for all larger numbers."""
    statement = COUNT[connection.driver.dialect]
    return int(connection.rows(statement, query=query, most=MOST_RANKED + 1)[0]["chunks"])
