"""Find the memory that a person or an agent names."""

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import LEARNINGS
from scaffold.core.printable_text import utf8_safe
from scaffold.memory.memories import Memories
from scaffold.memory.notes import Memory
from scaffold.plan.message_text import quoted, quoted_list


def find_memory(memories: Memories, name: str) -> Memory:
    """Return the memory whose id starts with `name`; UsageError if none does, or several do."""
    plain = utf8_safe(name.strip()).replace("\0", "")
    found = memories.by_prefix(plain) if plain else ()
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{quoted(name)} is the start of several memories", f"Say which: {quoted_list([e.id for e in found])}."
        )
    if plain and memories.by_prefix(plain, LEARNINGS):
        raise UsageError(f"{quoted(name)} is a learning, not a memory", f"`scaffold learn show {plain}` shows it.")
    raise UsageError(f"there is no memory {quoted(name)}", "`memory list` shows their ids.")
