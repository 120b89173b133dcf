"""Avoid repeated reads: equal calls in one turn, and files that have not changed since the last read."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import ToolCall
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal, resolve_inside
from scaffold.tools.content.safe_open import FileVersion, file_version
from scaffold.tools.content.seen_files import SeenFiles

CACHEABLE = frozenset({"read_file", "file_info"})
"""Tools whose answer depends only on one file and the arguments."""
MAX_CACHED = 100


def is_read_only(tool: Tool) -> bool:
    """Return True if the tool changes nothing, so it may run in parallel with other such tools."""
    return tool.category == "file_read" or tool.read_only


def repeated_calls(calls: Sequence[ToolCall]) -> Mapping[int, int]:
    """Map the index of each repeated call (same name, equal arguments) to the index of its first occurrence.

    Use it only on adjacent read-only calls: a write in between could change what the later one reads.
    """
    first: dict[str, int] = {}
    pairs = ((index, first.setdefault(_call_key(call.name, call.args), index)) for index, call in enumerate(calls))
    return {index: earlier for index, earlier in pairs if earlier != index}


def with_read_cache(tools: Sequence[Tool], root: Path, seen: SeenFiles | None = None) -> tuple[Tool, ...]:
    """Return the tools with a shared cache for those in CACHEABLE; any tool that may write clears it.

    Clearing catches writes that leave a file's size and time unchanged. A compaction clears it, too, so that files
    read again are `seen` again.
    """
    cache = ReadCache(root, seen=seen)
    return tuple(
        _cache_reads(tool, cache)
        if tool.name in CACHEABLE
        else tool
        if is_read_only(tool)
        else _invalidate_after(tool, cache)
        for tool in tools
    )


class CachedFileVersion(Struct, frozen=True):
    """The file version that a cached answer describes; ctime catches changes that preserve mtime."""

    origin: FileVersion
    ctime_ns: int


class _CachedRead(Struct, frozen=True):
    output: ToolOutput
    version: CachedFileVersion


class ReadCache:
    """The latest answers of tools that read one file; an answer is valid while the file has the same version."""

    def __init__(self, root: Path, most: int = MAX_CACHED, seen: SeenFiles | None = None) -> None:
        self._root = root
        self._most = most
        self._seen = seen
        self._compactions = 0
        self._kept: OrderedDict[str, _CachedRead] = OrderedDict()

    def find(self, call: ToolCall) -> ToolOutput | None:
        """Return the cached answer to an equal call; None if there is none or the file has changed."""
        # After a compaction the conversation no longer shows the answers, so files are read again.
        if self._seen is not None and self._compactions != self._seen.compactions:
            self._compactions = self._seen.compactions
            self.forget()
        key = _call_key(call.name, call.args)
        cached = self._kept.get(key)
        if cached is None:
            return None
        if self.version(call) != cached.version:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return cached.output

    def keep(self, call: ToolCall, output: ToolOutput, version: CachedFileVersion | None) -> None:
        """Cache a successful answer; `version` is the result of `version(call)` from before the call ran."""
        # A failure may be over the next time.
        if version is None or output.failed:
            return
        self._kept[_call_key(call.name, call.args)] = _CachedRead(output, version)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """Forget every answer."""
        self._kept.clear()

    def version(self, call: ToolCall) -> CachedFileVersion | None:
        """Return the current version of the file that `call` reads; None if its answer is not cacheable."""
        name = call.args.get("path")
        if call.name not in CACHEABLE or not isinstance(name, str):
            return None
        path = resolve_inside(self._root, name)
        if isinstance(path, Refusal):
            return None
        try:
            status = path.lstat()  # `path` is resolved: a link swapped in since is another file
        except OSError:
            return None
        return CachedFileVersion(file_version(status), status.st_ctime_ns)


def _cache_reads(tool: Tool, cache: ReadCache) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        call = ToolCall("", tool.name, args)
        cached = cache.find(call)
        if cached is not None:
            return cached
        # Before the read: an answer from a file that changes meanwhile then belongs to no current version.
        version = cache.version(call)
        output = await tool.run(args)
        cache.keep(call, output, version)
        return output

    return msgspec.structs.replace(tool, run=run)


def _invalidate_after(tool: Tool, cache: ReadCache) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        try:
            return await tool.run(args)
        finally:
            # Even after an error or a cancellation, because the tool may have written by then.
            cache.forget()

    return msgspec.structs.replace(tool, run=run)


def _call_key(name: str, args: Mapping[str, Any]) -> str:
    return json.dumps([name, args], sort_keys=True)
