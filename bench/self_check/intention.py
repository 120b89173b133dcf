"""What a scripted model wants, the calls it makes for that, and how it writes a change for each editing tool."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

Lines = Mapping[int, str]
"""Lines of a file by their number, from 1; those that are known."""
MOST_AROUND = 8
"""Lines above a place that a model takes along, at most, to say which one it means."""


class Call(Struct, frozen=True):
    """A tool call; `text`, if there is one, is what the model wrote instead of the arguments."""

    name: str
    args: Mapping[str, Any]
    text: str | None = None

    def having(self, **args: Any) -> "Call":
        """Return the call with these arguments in place of its own."""
        return Call(self.name, {**self.args, **args})

    @property
    def path(self) -> str:
        """The path it names, by whatever argument; empty if none."""
        found = (value for name, value in self.args.items() if re.search(r"path|file", name) and isinstance(value, str))
        patched = re.search(r"^\*\*\* Update File: (.+)$", str(self.args.get("input", "")), re.MULTILINE)
        return next(found, patched[1] if patched else "")

    def at(self, path: str) -> "Call":
        """Return the same call for another path."""
        if not self.path:
            return self
        args = {
            name: value.replace(self.path, path) if isinstance(value, str) else value
            for name, value in self.args.items()
        }
        return Call(self.name, args)


class Wish(Struct, frozen=True, kw_only=True):
    """A change of the line that matches `key`, below the line that matches `within`; or an answer to find.

    All of them are regular expressions: the model knows what the line is about, not how it is written now.
    """

    key: str = ""
    put: str = ""
    """What replaces the match of `key`."""
    within: str = ""
    find: str = ""
    """The answer is its first group."""

    def answer_in(self, text: str) -> str:
        """Return the answer that a text contains; empty if it contains none."""
        found = re.search(self.find, text) if self.find else None
        return found[1] if found else ""

    def place_in(self, lines: Lines) -> int | None:
        """Return the number of the line to change, if it is among these; None if there is no change to make."""
        if not self.key:
            return None
        wanted = [number for number, line in sorted(lines.items()) if re.search(self.key, line)]
        above = [number for number, line in sorted(lines.items()) if self.within and re.search(self.within, line)]
        behind = [number for number in wanted if above and number > above[0]]
        return next(iter(behind or ([] if self.within else wanted)), None)

    def changed(self, line: str) -> str:
        """Return the line as it is to be."""
        return re.sub(self.key, self.put, line)


class Intention(Struct, frozen=True):
    """A call and what it is for; `goal` is the call that is really wanted, where this one only looks something up."""

    call: Call
    wish: Wish
    goal: Call | None = None

    def by(self, call: Call) -> "Intention":
        """Return the intention with another call for the same purpose."""
        return structs.replace(self, call=call, goal=None)

    def looking(self, call: Call) -> "Intention":
        """Return the intention to look something up first."""
        return structs.replace(self, call=call, goal=self.goal or self.call)


def change_call(tool: str, path: str, lines: Lines, wish: Wish, *, numbered: bool = False) -> Call | None:
    """Return the call of an editing tool that makes the change; None if the line is not known.

    `numbered`: the model copies the numbers that it was shown.
    """
    place = wish.place_in(lines)
    if place is None:
        return None
    if tool == "apply_delta":
        line = lines[place]
        operation = {"operation": "replace", "start_line": place, "expected": line, "content": wish.changed(line)}
        return Call(tool, {"path": path, "operations": [operation]})
    block = _block(lines, place)
    if tool == "apply_patch":
        return Call(tool, {"input": patch(path, [lines[n] for n in block[:-1]], lines[place], wish)})
    mark = "{}\t{}" if numbered else "{1}"
    old = [mark.format(number, lines[number]) for number in block]
    new = [*old[:-1], mark.format(place, wish.changed(lines[place]))]
    return Call("edit", {"path": path, "old": "\n".join(old), "new": "\n".join(new)})


def patch(path: str, above: Sequence[str], line: str, wish: Wish) -> str:
    """Return a patch that changes one line below these."""
    kept = "".join(f" {each}\n" for each in above)
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n{kept}-{line}\n+{wish.changed(line)}\n*** End Patch"


def _block(lines: Lines, place: int) -> Sequence[int]:
    """Return the numbers of the lines to name: the place, and as many above it as make it the only such one."""
    for above in range(MOST_AROUND):
        block = range(place - above, place + 1)
        if not all(number in lines for number in block):
            return range(place - above + 1, place + 1)
        text = [lines[number] for number in block]
        same = [at for at in lines if [lines.get(at + n) for n in range(len(text))] == text]
        if len(same) == 1:
            return block
    return range(place, place + 1)
