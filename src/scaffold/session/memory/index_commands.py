"""The user's commands about indexes other than the memories: what agents have stored in them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import CAPACITIES, TRACES_LEFT, Chunk, ChunkFilter, ChunkId, CollectionName
from scaffold.core.printable_text import count_of, printable, utf8_safe
from scaffold.memory.hybrid import FoundChunk, QueryVectors, fuse
from scaffold.memory.indexes.indexes import delete_chunks, delete_whole_index
from scaffold.memory.memories import Memories
from scaffold.memory.notes import MemoryScope, first_line
from scaffold.plan.message_text import quoted, quoted_list

MIN_ROOM = 20
NO_TEXT = "(no text)"


class IndexItem(Struct, frozen=True):
    """An item of an index, and in which of the two databases it is."""

    chunk: Chunk
    scope: MemoryScope


def newest_items(memories: Memories, index: CollectionName, most: int) -> list[IndexItem]:
    """Return the items of an index that were stored last, the newest first."""
    found = [
        IndexItem(chunk, scope)
        for scope, database in memories.databases.all()
        for chunk in database.knowledge.chunks.newest(index, most=most)
    ]
    return sorted(found, key=lambda each: each.chunk.created_at, reverse=True)[:most]


async def fitting_items(
    memories: Memories, index: CollectionName, query: str, most: int
) -> list[tuple[IndexItem, FoundChunk]]:
    """Return the items of an index that fit a query, the best first."""
    found: dict[str, tuple[IndexItem, FoundChunk]] = {}
    text = utf8_safe(query)
    rankings, vectors = [], QueryVectors(text)
    for scope, _ in memories.databases.all():
        hits = await memories.find_in(scope, index, text, ChunkFilter(), most=most, vectors=vectors)
        found |= {hit.chunk.id: (IndexItem(hit.chunk, scope), hit) for hit in hits}
        rankings.append([hit.chunk.id for hit in hits])
    return [found[each] for each in fuse(*rankings)[:most]]


def find_item(memories: Memories, name: str) -> IndexItem | None:
    """Return another index's item by the start of its id, None if a memory is meant; UsageError for several."""
    plain = utf8_safe(name.strip()).replace("\0", "")
    found = [
        IndexItem(chunk, scope)
        for scope, database in memories.databases.all()
        for each in database.knowledge.collections.all()
        if plain and each.name not in CAPACITIES
        for chunk in database.knowledge.chunks.by_prefix(each.name, plain)
    ]
    if not found or memories.by_prefix(plain):
        return None
    if len(found) > 1:
        ids = quoted_list([each.chunk.id for each in found])
        raise UsageError(f"{quoted(name)} is the start of several items", f"Say which: {ids}.")
    return found[0]


def forget_items(memories: Memories, items: Sequence[IndexItem]) -> bool:
    """Delete items for good; False if another process keeps old text in the database's log."""
    ids: dict[tuple[MemoryScope, CollectionName], list[ChunkId]] = {}
    for each in items:
        ids.setdefault((each.scope, each.chunk.collection), []).append(each.chunk.id)
    emptied = True
    for (scope, index), chunks in ids.items():
        emptied = delete_chunks(memories, scope, index, chunks) and emptied
    return emptied


def item_lines(item: IndexItem) -> list[str]:
    """Return everything about one item."""
    chunk, span = item.chunk, item.chunk.span
    fields = {
        "index": chunk.collection,
        "of": item.scope,
        "from": chunk.source,
        "stored": f"{chunk.created_at:%Y-%m-%d %H:%M} UTC",
        "title": chunk.title,
        "page": str(span.page or ""),
        **chunk.meta,
    }
    lines = [f"item {chunk.id}", *(f"  {name}: {printable(text)}" for name, text in fields.items() if text)]
    return [*lines, "", *(f"  {line}" for line in printable(chunk.text).split("\n"))]


def item_line(item: IndexItem, width: int) -> str:
    """Return an item as one line."""
    of_user = " (user)" if item.scope == "user" else ""
    room = max(width - len(item.chunk.id) - len(of_user) - 3, MIN_ROOM)
    text = item.chunk.text or NO_TEXT
    return f"{item.chunk.id}  {printable(first_line(text, room))}{of_user}"


def item_json(item: IndexItem) -> dict[str, Any]:
    """Return everything known of an item."""
    chunk = item.chunk
    return {
        "id": chunk.id,
        "index": chunk.collection,
        "text": chunk.text,
        "title": chunk.title,
        "scope": item.scope,
        "source": chunk.source,
        "metadata": chunk.meta,
        "start": chunk.span.start,
        "end": chunk.span.end,
        "page": chunk.span.page or None,
        "created_at": chunk.created_at,
    }


def drop_index(memories: Memories, index: CollectionName) -> tuple[str, dict[str, Any]]:
    """Delete an index with all it has, for good; return what to say, and the same as JSON."""
    if index in CAPACITIES:
        fix = "`memory forget ID...` and `learn forget ID` delete what is in it."
        raise UsageError(f"{quoted(index)} is built in and stays", fix)
    scopes = [scope for scope, database in memories.databases.all() if database.knowledge.collections.get(index)]
    deleted = [delete_whole_index(memories, scope, index) for scope in scopes]
    items, emptied = sum(chunks for chunks, _ in deleted), all(each for _, each in deleted)
    lines = [f"deleted {printable(index)} with {count_of(items, 'item')}", *([] if emptied else [TRACES_LEFT])]
    return "\n".join(lines), {"deleted": index, "of": scopes, "items": items, "log_emptied": emptied}
