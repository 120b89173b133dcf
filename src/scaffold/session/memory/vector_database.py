"""What the tools of the vector database do in a session."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scaffold.core.errors import ScaffoldError
from scaffold.core.knowledge import TRACES_LEFT, Chunk
from scaffold.core.tool import ToolOutput
from scaffold.host.wall_clock import WallClock
from scaffold.memory.indexes.indexes import Added, Indexes
from scaffold.memory.indexes.item_json import found_text, item_text, states_text
from scaffold.memory.opening import open_memories
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.tools.vector_db import FOUND, MOST_FOUND

MOST_IDS = 200  # Ids that an answer lists


class OpenedVectorDatabase:
    """Opens the databases for each call, so that a session holds no lock on them. Implements `VectorDatabase`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access

    async def call(self, tool: str, args: Mapping[str, Any]) -> ToolOutput:
        """Return the answer of a tool; what it was given wrong is its answer, too."""
        access = self._access
        try:
            with open_memories(
                access.cwd, access.store, access.redactor, create=tool == "create_index", embedder=access.embedder()
            ) as memories:
                indexes = Indexes(memories, clock=WallClock(), redactor=access.redactor, source=access.source)
                return ToolOutput(access.redactor.clean(await ANSWERS[tool](indexes, args)))
        except ScaffoldError as error:
            return ToolOutput(f"Not done: {error.in_full}", failed=True)


async def _create_index(indexes: Indexes, args: Mapping[str, Any]) -> str:
    place = indexes.create(args["index"], args.get("dimension"))
    given = place.has_given_vectors
    return _to_json(
        created=place.collection.name,
        of=place.scope,
        vectors="given" if given else "computed",
        dimension=place.collection.dimension or None,
        capacity=place.collection.capacity,
    )


async def _delete_index(indexes: Indexes, args: Mapping[str, Any]) -> str:
    place, items, emptied = indexes.delete(args["index"])
    return _to_json(deleted=place.collection.name, of=place.scope, items=items) + _log_note(emptied)


async def _list_indices(indexes: Indexes, _args: Mapping[str, Any]) -> str:
    return states_text(indexes.states())


async def _add_vector(indexes: Indexes, args: Mapping[str, Any]) -> str:
    return _added_text(
        indexes.add_vector(args["index"], args["vector"], args.get("text", ""), args.get("metadata", {}))
    )


async def _update_vector(indexes: Indexes, args: Mapping[str, Any]) -> str:
    after: Chunk = indexes.update(args["index"], args["id"], args.get("vector"), args.get("text"), args.get("metadata"))
    return _to_json(updated=after.id)


async def _delete_vector(indexes: Indexes, args: Mapping[str, Any]) -> str:
    ids, emptied = indexes.delete_items(args["index"], args["ids"])
    return _to_json(deleted=list(ids)) + _log_note(emptied)


async def _get_vector(indexes: Indexes, args: Mapping[str, Any]) -> str:
    return item_text(*indexes.item(args["index"], args["id"]))


async def _search(indexes: Indexes, args: Mapping[str, Any]) -> str:
    return found_text(indexes.nearest(args["index"], args["vector"], args.get("metadata", {}), _result_limit(args)))


async def _search_text(indexes: Indexes, args: Mapping[str, Any]) -> str:
    return found_text(
        await indexes.fitting(args["index"], args["query"], args.get("metadata", {}), _result_limit(args))
    )


async def _search_by_time(indexes: Indexes, args: Mapping[str, Any]) -> str:
    period = (args.get("since"), args.get("until"))
    return found_text(indexes.by_time(args["index"], *period, args.get("metadata", {}), _result_limit(args)))


async def _add_text(indexes: Indexes, args: Mapping[str, Any]) -> str:
    return _added_text(await indexes.add_text(args["index"], args["text"], args.get("metadata", {})))


async def _add_chunked_text(indexes: Indexes, args: Mapping[str, Any]) -> str:
    kind, source = args.get("kind", "text"), args.get("source", "")
    return _added_text(
        await indexes.add_chunked_text(args["index"], args["text"], kind, source, args.get("metadata", {}))
    )


ANSWERS: Mapping[str, Callable[[Indexes, Mapping[str, Any]], Awaitable[str]]] = {
    "create_index": _create_index,
    "delete_index": _delete_index,
    "list_indices": _list_indices,
    "add_vector": _add_vector,
    "update_vector": _update_vector,
    "delete_vector": _delete_vector,
    "get_vector": _get_vector,
    "search": _search,
    "search_text": _search_text,
    "search_by_time": _search_by_time,
    "add_text": _add_text,
    "add_chunked_text": _add_chunked_text,
}


def _result_limit(args: Mapping[str, Any]) -> int:
    asked: int = args.get("k", FOUND)
    return min(asked, MOST_FOUND)


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
