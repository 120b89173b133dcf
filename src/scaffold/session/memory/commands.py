"""The user's commands about memories: the same for `/memory` and for `scaffold memory`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import DOCUMENTS, LEARNINGS, MEMORIES, TRACES_LEFT, ChunkState, CollectionName
from scaffold.core.printable_text import count_of, format_usd, printable, utf8_safe
from scaffold.memory.chunk_embedding import ignore_count
from scaffold.memory.memories import Memories, find_memory
from scaffold.memory.notes import Memory, MemoryType, contradictions, first_line
from scaffold.memory.opening import open_memories
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.session.memory.answer import NOUNS, MemoryAnswer
from scaffold.session.memory.document_commands import document_list, open_library, passages, passages_if_any
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.index_commands import (
    NO_TEXT,
    IndexItem,
    drop_index,
    find_item,
    fitting_items,
    forget_items,
    item_json,
    item_line,
    item_lines,
    newest_items,
)
from scaffold.views.text_format import two_columns

MOST_LISTED = 50
MOST_FOUND = 10
FIELDS: Mapping[str, Sequence[str]] = {"text": (), "type": get_args(MemoryType), "state": ("active", "unconfirmed")}
"""What can be edited, and the values that it takes; none for any text."""
COMMANDS: Sequence[tuple[str, str]] = (
    ("list [INDEX]", "the memories, or what another index has, the newest first"),
    ("search QUERY", "those that fit, by words and by meaning"),
    ("search --index INDEX QUERY", "the same in another index"),
    ("show ID", "one in full: who said it, since when, what contradicts it"),
    ("edit ID FIELD VALUE", "change its text, type or state (active, unconfirmed)"),
    ("confirm ID...", "let what an agent noted count; what is yours, in all folders"),
    ("forget ID...", "delete for good"),
    ("add TEXT", "remember something yourself"),
    ("documents [QUERY]", "the documents; the parts of them that fit a query"),
    ("indices", "the indexes, and how full they are"),
    ("stats [INDEX]", "one of them in numbers"),
    ("drop INDEX", "delete one that agents have made, with all it has"),
)
"""Each command with its arguments, and what it does."""


def explained(name: str, width: int) -> MemoryAnswer:
    """Return how a command is used, or all of them if that is empty; with what it takes, and examples."""
    rows = [(f"/memory {usage}", about) for usage, about in COMMANDS if name in {"", usage.partition(" ")[0]}]
    lines = list(two_columns(rows, width, indent=""))
    if name == "edit":
        lines += [f"  {field}: {', '.join(values) or 'any words'}" for field, values in FIELDS.items()]
        lines += [
            "Examples:",
            "  /memory edit 3f2a text The tests need Python 3.11",
            "  /memory edit 3f2a state active",
        ]
    if name and " ID" in rows[0][0]:
        lines.append("`/memory list` shows the IDs; the start of one will do.")
    return MemoryAnswer("\n".join(lines), {})


def _command_to_explain(name: str, rest: Sequence[str]) -> str | None:
    """Return the command that the user asks about or gives without its arguments; empty for all, None for none."""
    needs = {usage.partition(" ")[0]: usage.partition(" ")[2] for usage, _ in reversed(COMMANDS)}
    if name == "help" and len(rest) < 2:
        return next((each for each in rest if each in needs), "")
    return name if not rest and needs.get(name, "")[:1] not in {"", "["} else None


async def run_memory_command(  # noqa: PLR0911 - one for each
    words: Sequence[str], access: MemoryAccess, width: int
) -> MemoryAnswer:
    """Execute `/memory WORDS`; UsageError for an unknown command."""
    name, rest = (words[0].lower(), words[1:]) if words else ("list", ())
    if (command := _command_to_explain(name, rest)) is not None:
        return explained(command, width)
    if name == "documents":
        with open_library(access) as library:
            return await passages(library, DOCUMENTS, " ".join(rest)) if rest else document_list(library)
    embedder = access.embedder()
    with open_memories(access.cwd, access.store, access.redactor, create=name == "add", embedder=embedder) as memories:
        match name, rest:
            case ("list", [] | [_]):
                return listed(memories, *rest, width=width)
            case "search", [_, *_]:
                other = rest[0] == "--index" and len(rest) > 2
                index, query = (rest[1], rest[2:]) if other else (MEMORIES, rest)
                with open_library(access) as library:
                    of_documents = await passages_if_any(library, index, " ".join(query)) if other else None
                return of_documents or await searched(memories, " ".join(query), index=index, width=width)
            case "show", [memory]:
                return shown(memories, memory)
            case "edit", [memory, field, _, *_]:
                return edited(memories, memory, field, " ".join(rest[2:]))
            case (("confirm" | "forget"), [_, *_]):
                return confirmed(memories, rest) if name == "confirm" else forgotten(memories, rest)
            case "add", [_, *_]:
                return added(memories, " ".join(rest))
            case "drop" | "indices" | "stats", [] | [_]:
                return _about_indexes(memories, name, rest)
    raise _no_command(words)


def _about_indexes(memories: Memories, name: str, rest: Sequence[str]) -> MemoryAnswer:
    match name, rest:
        case "drop", [index]:
            return dropped(memories, index)
        case "indices", []:
            return indices(memories)
        case "stats", _:
            return stats(memories, *rest)
    raise _no_command([name, *rest])


def _no_command(words: Sequence[str]) -> UsageError:
    usages = [f"`/memory {usage}`" for usage, _ in COMMANDS if words and usage.partition(" ")[0] == words[0].lower()]
    fix = f"Usage: {' or '.join(usages)}." if usages else "`/memory help` lists them."
    return UsageError(f"`/memory {printable(' '.join(words))[:60]}` is not a command", fix)


def listed(memories: Memories, index: str = MEMORIES, *, width: int, most: int = MOST_LISTED) -> MemoryAnswer:
    """Return the memories that were stored last; UsageError for an index that does not exist."""
    name = _require_shown(memories, index)
    if name != MEMORIES:
        items = newest_items(memories, name, most + 1)
        lines = [item_line(each, width) for each in items[:most]]
        if len(items) > most:
            lines.append(f"{most} are shown; search for the others.")
        text = "\n".join(lines) or f"{quoted(name)} has nothing yet."
        return MemoryAnswer(text, {"index": name, "items": [item_json(each) for each in items[:most]]})
    found = memories.newest(most=most + 1)
    lines = _memory_lines(found[:most], width)
    if len(found) > most:
        lines.append(f"{most} are shown; search for the others.")
    if any(each.scope == "user" and each.chunk.state == "unconfirmed" for each in found):
        lines.append("Unconfirmed ones of yours count where they were noted, until you `memory confirm ID` them.")
    nothing = "Nothing is remembered yet. `memory add TEXT` remembers something."
    return MemoryAnswer("\n".join(lines) or nothing, {"memories": [memory_json(each) for each in found[:most]]})


async def searched(
    memories: Memories, query: str, *, index: str = MEMORIES, width: int, most: int = MOST_FOUND
) -> MemoryAnswer:
    """Return the memories, or items of another index, that fit a query, the best first."""
    name = _require_shown(memories, index)
    if name != MEMORIES:
        fits = await fitting_items(memories, name, query, most)
        rows = [{**item_json(each), "cosine": _rounded(hit.cosine)} for each, hit in fits]
        text = "\n".join(item_line(each, width) for each, _ in fits) or f"Nothing fits {quoted(query)}."
        return MemoryAnswer(text, {"index": name, "items": rows})
    found = await memories.find(utf8_safe(query), most=most, everywhere=True)
    rows = [{**memory_json(each.memory), "cosine": _rounded(each.hit.cosine)} for each in found]
    lines = _memory_lines([each.memory for each in found], width) or [f"No memory fits {quoted(query)}."]
    failure = memories.search_failure
    if failure is not None:
        lines.append(f"They were looked for by words alone: {failure.in_full}")
    return MemoryAnswer("\n".join(lines), {"memories": rows})


def shown(memories: Memories, name: str) -> MemoryAnswer:
    """Return everything about one memory, or about an item of another index."""
    if (item := find_item(memories, name)) is not None:
        return MemoryAnswer("\n".join(item_lines(item)), item_json(item))
    memory = find_memory(memories, name)
    chunk, rivals = memory.chunk, memories.rivals(memory, everywhere=True)
    fields = {
        "state": chunk.state,
        "type": memory.type,
        "of": memory.scope,
        "from": chunk.source,
        "since": f"{chunk.valid_from:%Y-%m-%d %H:%M} UTC",
        "until": f"{chunk.valid_until:%Y-%m-%d %H:%M} UTC" if chunk.valid_until else "",
        "replaced by": chunk.superseded_by or "",
    }
    lines = [f"memory {memory.id}", *(f"  {name}: {printable(text)}" for name, text in fields.items() if text)]
    lines += ["", *(f"  {line}" for line in printable(chunk.text).split("\n"))]
    if rivals:
        lines += ["", "These seem to contradict it:", *_memory_lines(rivals, 100)]
    return MemoryAnswer("\n".join(lines), memory_json(memory) | {"contradicted_by": [each.id for each in rivals]})


def edited(memories: Memories, name: str, field: str, value: str) -> MemoryAnswer:
    """Change one field of a memory."""
    memory = find_memory(memories, name)
    if field not in FIELDS:
        raise UsageError(f"a memory has no field {quoted(field)} to edit", f"Use {quoted_list(list(FIELDS))}.")
    if FIELDS[field] and value not in FIELDS[field]:
        raise UsageError(f"{quoted(value)} is no {field}", f"Use {quoted_list(list(FIELDS[field]))}.")
    after = memories.edit(memory, **{field: value})
    return MemoryAnswer(_memory_line(after, 100), memory_json(after))


def confirmed(memories: Memories, names: Sequence[str]) -> MemoryAnswer:
    """Let memories count that an agent noted; all are found before any is changed."""
    found = [find_memory(memories, name) for name in names]
    after = [memories.edit(each, state="active") for each in found]
    return MemoryAnswer("\n".join(_memory_lines(after, 100)), {"memories": [memory_json(each) for each in after]})


def forgotten(memories: Memories, names: Sequence[str]) -> MemoryAnswer:
    """Delete memories, and items of other indexes, for good; all are found before any is deleted."""
    named = [find_item(memories, name) or find_memory(memories, name) for name in names]
    found = list({each.chunk.id: each for each in named}.values())
    emptied = memories.forget(each for each in found if isinstance(each, Memory))
    emptied = forget_items(memories, [each for each in found if isinstance(each, IndexItem)]) and emptied
    lines = [f"forgot {each.chunk.id}: {printable(first_line(each.chunk.text or NO_TEXT, 80))}" for each in found]
    if not emptied:
        lines.append(TRACES_LEFT)
    return MemoryAnswer("\n".join(lines), {"forgotten": [each.chunk.id for each in found], "log_emptied": emptied})


def dropped(memories: Memories, index: str) -> MemoryAnswer:
    """Delete an index that agents have made, with all it has."""
    return MemoryAnswer(*drop_index(memories, _require_index(memories, index)))


def added(memories: Memories, text: str, *, source: str = "user", supersedes: str = "", **given: Any) -> MemoryAnswer:
    """Remember what the user says; `given` are `scope` and `kind`."""
    former = find_memory(memories, supersedes) if supersedes else None
    done = memories.remember(text, source=source, supersedes=former, **given)
    lines = [_memory_line(done.memory, 100) if done.is_new else f"{done.memory.id} says that already"]
    if done.contradicts:
        lines += ["These seem to contradict it:", *_memory_lines(done.contradicts, 100)]
    data = memory_json(done.memory) | {"new": done.is_new, "contradicts": [each.id for each in done.contradicts]}
    return MemoryAnswer("\n".join(lines), data)


def indices(memories: Memories) -> MemoryAnswer:
    """Return the indices and how full they are."""
    found = memories.states()
    lines = [
        f"{printable(each.collection.name)}  {each.scope}  {each.chunks:,} of {each.collection.capacity:,}, "
        f"{count_of(each.vectors, 'vector')}"
        f"{f' of {each.collection.dimension} numbers' if each.collection.has_given_vectors else ''}"
        for each in found
    ]
    rows = [_index_json(each) for each in found]
    return MemoryAnswer("\n".join(lines) or "There is no index yet; the first memory makes one.", {"indices": rows})


def stats(memories: Memories, index: str = MEMORIES) -> MemoryAnswer:
    """Return one index in numbers."""
    _require_index(memories, index)
    found = [each for each in memories.states() if each.collection.name == index]
    lines = []
    for each in found:
        by_state = ", ".join(f"{count:,} {state}" for state, count in each.by_state.items()) or "none"
        made = each.collection.model or "given by the agent"
        model = f"{made}, {each.collection.dimension} numbers" if each.vectors else "none yet"
        lines += [
            f"{printable(each.collection.name)} of the {each.scope}",
            f"  {NOUNS.get(each.collection.name, 'items')}: {by_state}; at most {each.collection.capacity:,}",
            f"  vectors: {each.vectors:,} ({model})",
        ]
    text = "\n".join(lines) or "Nothing is remembered yet."
    return MemoryAnswer(text, {"index": index, "databases": [_index_json(each) for each in found]})


async def indexed(
    memories: Memories, *, again: bool = False, tell: Callable[[int], None] = ignore_count
) -> MemoryAnswer:
    """Compute the vectors that are missing, and new index files where they are worth it."""
    if not memories.has_vectors:
        raise UsageError(
            "memories are found by their words alone here", "Install the extra: `pip install 'ralph-scaffold[memory]'`."
        )
    filled, files = await memories.index(again=again, tell=tell)
    cost = memories.embedding_cost
    paid = {} if cost is None else {"tokens": cost.input_tokens, "cost_usd": cost.cost_usd}
    text = f"{count_of(filled, 'vector')} added, {count_of(files, 'index file')} made"
    if cost is not None:
        price = "cost unknown" if cost.cost_usd is None else format_usd(cost.cost_usd)
        text += f"; {cost.input_tokens:,} tokens, {price}"
    return MemoryAnswer(text, {"vectors": filled, "files": files, **paid})


def memory_json(memory: Memory) -> dict[str, Any]:
    """Return everything known of a memory."""
    chunk = memory.chunk
    return {
        "id": memory.id,
        "text": chunk.text,
        "type": memory.type,
        "scope": memory.scope,
        "source": chunk.source,
        "state": chunk.state,
        "valid_from": chunk.valid_from,
        "valid_until": chunk.valid_until,
        "superseded_by": chunk.superseded_by,
        "created_at": chunk.created_at,
    }


def _index_json(each: Any) -> dict[str, Any]:
    return {
        "name": each.collection.name,
        "scope": each.scope,
        "memories": each.chunks,
        "capacity": each.collection.capacity,
        "by_state": each.by_state,
        "vectors": each.vectors,
        "model": each.collection.model or None,
        "dimension": each.collection.dimension or None,
    }


def _require_index(memories: Memories, index: str) -> CollectionName:
    known = {MEMORIES, *(each.collection.name for each in memories.states())}
    name = CollectionName(utf8_safe(index))
    if name not in known:
        raise UsageError(f"there is no index {quoted(index)}", f"There is {quoted_list(sorted(known))}.")
    return name


def _require_shown(memories: Memories, index: str) -> CollectionName:
    if index == LEARNINGS:
        raise UsageError("learnings are not listed here", "`scaffold learn` lists, finds, changes and forgets them.")
    return _require_index(memories, index)


def _memory_lines(memories: Sequence[Memory], width: int) -> list[str]:
    valid = [each for each in memories if each.chunk.state != "superseded"]
    return [_memory_line(each, width, " (contradicted)" if contradictions(each, valid) else "") for each in memories]


def _memory_line(memory: Memory, width: int, mark: str = "") -> str:
    marks: Mapping[ChunkState, str] = {"unconfirmed": " (unconfirmed)", "superseded": " (superseded)", "active": ""}
    of_user = " (user)" if memory.scope == "user" else ""
    end = f"{marks[memory.chunk.state]}{of_user}{mark}"
    room = max(width - len(memory.id) - len(end) - 3, 20)
    return f"{memory.id}  {printable(first_line(memory.chunk.text, room))}{end}"


def _rounded(cosine: float | None) -> float | None:
    return None if cosine is None else round(cosine, 4)
