"""Reads that need not be made: the same call twice, or of a file that has not changed since."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.conversation import ToolCall
from scaffold.core.tool import ToolOutput
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.regular import Origin, origin_of

CACHEABLE = frozenset({"read_file", "file_info"})
"""Tools whose answer depends on one file and its arguments alone."""
MOST_KEPT = 100


def duplicates(calls: Sequence[ToolCall]) -> Mapping[int, int]:
    """Return for each call that repeats an earlier one, by index, which one; the same name and equal arguments.

    Meant for neighbours that only read: what lies between two of them may have changed what they see.
    """
    first: dict[str, int] = {}
    places = ((at, first.setdefault(_key(call.name, call.args), at)) for at, call in enumerate(calls))
    return {at: earlier for at, earlier in places if earlier != at}


class _Kept(Struct, frozen=True):
    output: ToolOutput
    origin: Origin


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
        if self.version(call) != kept.origin:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept.output

    def keep(self, call: ToolCall, output: ToolOutput, version: Origin | None) -> None:
        """Keep a good answer to a call; `version` is what `version(call)` said before the call was run."""
        if version is None or output.failed:
            return
        self._kept[_key(call.name, call.args)] = _Kept(output, version)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def version(self, call: ToolCall) -> Origin | None:
        """Return which version of its file a call would read now; None for calls whose answers are not kept."""
        path = call.args.get("path")
        if call.name not in CACHEABLE or not isinstance(path, str):
            return None
        place = confine(self._root, path)
        if isinstance(place, Refusal):
            return None
        try:
            return origin_of(place.lstat())
        except OSError:
            return None


def _key(name: str, args: Mapping[str, Any]) -> str:
    return json.dumps([name, args], sort_keys=True)
