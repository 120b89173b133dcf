"""What the tools of the vector database do in a session."""

import asyncio
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
TIME_LIMIT_S = 60.0
LATER = "All of it is stored, and found by its words. Its vectors are still computed, in the background."


class OpenedVectorDatabase:
    """Opens the databases for each call, so that a session holds no lock on them. Implements `VectorDatabase`."""

    def __init__(self, access: MemoryAccess, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        """`time_limit_s`: how long an answer waits for vectors; the others are computed meanwhile."""
        self._access = access
        self._time_limit_s = time_limit_s
        self._background: set[asyncio.Task[ToolOutput]] = set()

    async def call(self, tool: str, args: Mapping[str, Any]) -> ToolOutput:
        """Return the answer of a tool; an invalid argument is answered as well."""
        stored: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        working = asyncio.create_task(self._answer(tool, args, stored.set_result))
        self._background.add(working)
        working.add_done_callback(self._background.discard)
        try:
            first: set[asyncio.Future[Any]] = {working, stored}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=self._time_limit_s)
        except asyncio.CancelledError:
            working.cancel()
            raise
        return await working if working.done() else ToolOutput(f"{_added_text(stored.result())}\n{LATER}")

    async def close(self) -> None:
        """Compute no more vectors: those that are missing come with later searches."""
        for task in (left := {*self._background}):
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _answer(self, tool: str, args: Mapping[str, Any], tell: Callable[[Added], object]) -> ToolOutput:
        access = self._access
        try:
            with open_memories(
                access.cwd, access.store, access.redactor, create=tool == "create_index", embedder=access.embedder()
            ) as memories:
                indexes = Indexes(
                    memories, clock=WallClock(), redactor=access.redactor, source=access.source, tell=tell
                )
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
