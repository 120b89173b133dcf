"""What a command about memories or documents says."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class MemoryAnswer(Struct, frozen=True):
    """What a command says, as text and as JSON."""

    text: str
    data: Mapping[str, Any]
