"""Reads that need not be made: the same call twice, or of a file that has not changed since."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import ToolCall
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.regular import Origin, origin_of

CACHEABLE = frozenset({"read_file", "file_info"})
"""Tools whose answer depends on one file and its arguments alone."""
MOST_KEPT = 100


def only_reads(tool: Tool) -> bool:
    """Tell whether a tool changes nothing, so that it may run beside others like it."""
    return tool.category == "file_read" or tool.only_reads


def duplicates(calls: Sequence[ToolCall]) -> Mapping[int, int]:
    """Return for each call that repeats an earlier one, by index, which one; the same name and equal arguments.

    Meant for neighbours that only read: what lies between two of them may have changed what they see.
    """
    first: dict[str, int] = {}
    places = ((at, first.setdefault(_key(call.name, call.args), at)) for at, call in enumerate(calls))
    return {at: earlier for at, earlier in places if earlier != at}


def remembering(tools: Sequence[Tool], root: Path) -> tuple[Tool, ...]:
    """Return the tools, those that read one file with their latest answers at hand; whatever may write forgets all.

    So what the tools themselves change is seen though size and time stay what they were.
    """
    cache = ReadCache(root)
    return tuple(
        _remembering(tool, cache) if tool.name in CACHEABLE else tool if only_reads(tool) else _forgetting(tool, cache)
        for tool in tools
    )


class Version(Struct, frozen=True):
    """Which version of a file an answer tells of; a time of change tells of those that kept their time of writing."""

    origin: Origin
    ctime_ns: int


class _Kept(Struct, frozen=True):
    output: ToolOutput
    version: Version


class ReadCache:
    """The latest answers of tools that read one file; each is good as long as the file is the same version."""

    def __init__(self, root: Path, most: int = MOST_KEPT) -> None:
        self._root = root
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def find(self, call: ToolCall) -> ToolOutput | None:
        """Return the answer to an equal call, None if there is none or the file has changed since."""
        key = _key(call.name, call.args)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self.version(call) != kept.version:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept.output

    def keep(self, call: ToolCall, output: ToolOutput, version: Version | None) -> None:
        """Keep a good answer to a call; `version` is what `version(call)` said before the call was run."""
        if version is None or output.failed:
            return
        self._kept[_key(call.name, call.args)] = _Kept(output, version)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """Forget every answer."""
        self._kept.clear()

    def version(self, call: ToolCall) -> Version | None:
        """Return which version of its file a call would read now; None for calls whose answers are not kept."""
        path = call.args.get("path")
        if call.name not in CACHEABLE or not isinstance(path, str):
            return None
        place = confine(self._root, path)
        if isinstance(place, Refusal):
            return None
        try:
            status = place.lstat()
        except OSError:
            return None
        return Version(origin_of(status), status.st_ctime_ns)


def _remembering(tool: Tool, cache: ReadCache) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        call = ToolCall("", tool.name, args)
        known = cache.find(call)
        if known is not None:
            return known
        version = cache.version(call)
        output = await tool.run(args)
        cache.keep(call, output, version)
        return output

    return msgspec.structs.replace(tool, run=run)


def _forgetting(tool: Tool, cache: ReadCache) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        try:
            return await tool.run(args)
        finally:
            cache.forget()

    return msgspec.structs.replace(tool, run=run)


def _key(name: str, args: Mapping[str, Any]) -> str:
    return json.dumps([name, args], sort_keys=True)
