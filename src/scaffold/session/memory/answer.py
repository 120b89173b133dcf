"""What a command about memories or documents says, and in which words."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from scaffold.core.knowledge import LEARNINGS, MEMORIES, CollectionName

NOUNS: Mapping[CollectionName, str] = {MEMORIES: "memories", LEARNINGS: "learnings"}
"""What indexes have that only their own commands write."""


class MemoryAnswer(Struct, frozen=True):
    """What a command says, as text and as JSON."""

    text: str
    data: Mapping[str, Any]
