"""What is remembered that fits a message."""

from collections.abc import Callable

from scaffold.core.errors import ScaffoldError
from scaffold.session.memory.lazy_memories import LazyMemories


async def recalled(memories: LazyMemories, message: str, tell: Callable[[str], object]) -> str:
    """Return the memories that go with a message, empty for none; `tell` receives what went wrong."""
    found = await memories.context_for(message)
    if isinstance(found, ScaffoldError):
        tell(f"no memories go with this message: {found.what}")
    if trouble := memories.first_trouble():
        tell(f"memories are found by their words alone: {trouble}")
    return "" if isinstance(found, ScaffoldError) else found
