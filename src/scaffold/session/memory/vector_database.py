"""What the tools of the vector database do in a session."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scaffold.core.errors import ScaffoldError
from scaffold.core.knowledge import TRACES_LEFT
from scaffold.core.tool import ToolOutput
from scaffold.host.wall_clock import WallClock
from scaffold.memory.indexes.indexes import Added, Indexes
from scaffold.memory.indexes.item_json import found_text, item_text, states_text
from scaffold.memory.opening import open_memories
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.tools.vector_db import FOUND, MOST_FOUND

MOST_IDS = 200  # ids that an answer lists


class OpenedVectorDatabase:
    """Opens the databases for each call, so that a session holds no lock on them. Implements `VectorDatabase`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access

    async def call(self, tool: str, args: Mapping[str, Any]) -> ToolOutput:
        """Return the answer of a tool; an invalid argument is answered as well."""
        access = self._access
        try:
            with open_memories(
                access.cwd, access.store, access.redactor, create=tool == "create_index", embedder=access.embedder()
            ) as memories:
                indexes = Indexes(memories, clock=WallClock(), redactor=access.redactor, source=access.source)
                if tool == "list_indices":
                    return ToolOutput(access.redactor.clean(states_text(indexes.states())))
                answer = CHANGES.get(tool) or _search
                return ToolOutput(access.redactor.clean(await answer(tool, indexes, args["index"], args)))
        except ScaffoldError as error:
            return ToolOutput(f"Not done: {error.in_full}", failed=True)


async def _change_index(tool: str, indexes: Indexes, name: str, args: Mapping[str, Any]) -> str:
    if tool == "delete_index":
        place, items, emptied = indexes.delete(name)
        return _to_json(deleted=place.collection.name, of=place.scope, items=items) + _log_note(emptied)
    place = indexes.create(name, args.get("dimension"))
    return _to_json(
        created=place.collection.name,
        of=place.scope,
        vectors="given" if place.has_given_vectors else "computed",
        dimension=place.collection.dimension or None,
        capacity=place.collection.capacity,
    )


async def _change_items(tool: str, indexes: Indexes, name: str, args: Mapping[str, Any]) -> str:
    if tool == "update_vector":
        after = indexes.update(name, args["id"], args.get("vector"), args.get("text"), args.get("metadata"))
        return _to_json(updated=after.id)
    ids, emptied = indexes.delete_items(name, args["ids"])
    return _to_json(deleted=list(ids)) + _log_note(emptied)


async def _add_items(tool: str, indexes: Indexes, name: str, args: Mapping[str, Any]) -> str:
    metadata = args.get("metadata", {})
    if tool == "add_vector":
        return _added_text(indexes.add_vector(name, args["vector"], args.get("text", ""), metadata))
    if tool == "add_text":
        return _added_text(await indexes.add_text(name, args["text"], metadata))
    kind, source = args.get("kind", "text"), args.get("source", "")
    return _added_text(await indexes.add_chunked_text(name, args["text"], kind, source, metadata))


async def _search(tool: str, indexes: Indexes, name: str, args: Mapping[str, Any]) -> str:
    metadata, most = args.get("metadata", {}), min(args.get("k", FOUND), MOST_FOUND)
    if tool == "get_vector":
        return item_text(*indexes.item(name, args["id"]))
    if tool == "search":
        return found_text(indexes.nearest(name, args["vector"], metadata, most))
    if tool == "search_text":
        return found_text(await indexes.fitting(name, args["query"], metadata, most))
    return found_text(indexes.by_time(name, args.get("since"), args.get("until"), metadata, most))


CHANGES: Mapping[str, Callable[[str, Indexes, str, Mapping[str, Any]], Awaitable[str]]] = {
    **dict.fromkeys(("create_index", "delete_index"), _change_index),
    **dict.fromkeys(("update_vector", "delete_vector"), _change_items),
    **dict.fromkeys(("add_vector", "add_text", "add_chunked_text"), _add_items),
}


def _added_text(added: Added) -> str:
    ids: Sequence[str] = [each.id for each in added.chunks[:MOST_IDS]]
    more = {"more": len(added.chunks) - MOST_IDS} if len(added.chunks) > MOST_IDS else {}
    text = _to_json(ids=ids, **more, new=added.new)
    return (
        f"{text}\nUntil its vectors can be computed, it is found by its words: {added.problem}"
        if added.problem
        else text
    )


def _log_note(emptied: bool) -> str:
    return "" if emptied else f"\n{TRACES_LEFT}"


def _to_json(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
