"""The one folder an agent works in, and how a tool's work becomes an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.tool import ToolOutput

ANSWER_LIMIT = 30_000
"""Characters of an answer, about."""


class Workspace(Struct, frozen=True):
    """Where an agent works, and the environment of the commands it starts."""

    root: Path
    env: Mapping[str, str]


def failed(reason: str) -> ToolOutput:
    """Return an answer that says why nothing came of the call, and what to do instead."""
    return ToolOutput(reason, failed=True)


def in_a_thread(
    work: Callable[[Mapping[str, Any]], ToolOutput],
) -> Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]:
    """Return `work` as a tool's function: off the event loop, with errors of the file system as failed answers."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        try:
            return await asyncio.to_thread(work, args)
        except OSError as error:
            return failed(
                f"The file system refused: {error.strerror or error}. Use another path, or look with list_dir."
            )

    return run


def excerpt(text: str, limit: int) -> str:
    """Return `text`, or its head and tail with a note on what is missing between them if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n... {len(text) - head - tail} characters left out ...\n{text[-tail:]}"
