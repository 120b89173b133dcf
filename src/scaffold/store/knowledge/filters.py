"""A filter of chunks as conditions in SQL."""

from collections.abc import Mapping

from msgspec import Struct

from scaffold.core.knowledge import ChunkFilter
from scaffold.store.driver.columns import format_time
from scaffold.store.driver.connection import ColumnValue

EVERYTHING = ChunkFilter(states=("active", "unconfirmed", "superseded"))


class Conditions(Struct, frozen=True):
    """Conditions on the table `chunk`, each beginning with AND, and the values that they name."""

    text: str
    values: Mapping[str, ColumnValue]


def conditions_of(wanted: ChunkFilter) -> Conditions:
    """Return the conditions of a filter; all of its words are values, none is part of the statement."""
    values: dict[str, ColumnValue] = {f"state{place}": state for place, state in enumerate(wanted.states)}
    parts = [f"AND chunk.state IN ({', '.join(f':{name}' for name in values)})" if values else "AND 1 = 0"]
    if wanted.document is not None:
        parts.append("AND chunk.document_id = :document")
        values["document"] = wanted.document
    if wanted.source:
        parts.append("AND substr(chunk.source, 1, length(:source)) = :source")
        values["source"] = wanted.source
    if wanted.since is not None:
        parts.append("AND chunk.created_at >= :since")
        values["since"] = format_time(wanted.since)
    if wanted.until is not None:
        parts.append("AND chunk.created_at < :until")
        values["until"] = format_time(wanted.until)
    for place, (name, value) in enumerate(wanted.meta.items()):
        fits = f"chunk_id = chunk.id AND name = :name{place} AND value = :value{place}"
        parts.append(f"AND EXISTS (SELECT 1 FROM chunk_meta WHERE {fits})")  # noqa: S608 - names of our own
        values |= {f"name{place}": name, f"value{place}": value}
    return Conditions(" ".join(parts), values)
