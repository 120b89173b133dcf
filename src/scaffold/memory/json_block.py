"""A block of JSON lines for a model: no text in it can end the block."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line."""
    return json.dumps(row, ensure_ascii=False)


def json_block(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a fenced block."""
    return "\n".join(["```jsonl", *map(json_line, rows), "```"])
