"""Markdown that is still being written, cut where a part of it is finished and can be drawn for good."""

import re

_FENCE = re.compile(r"^\s*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = re.compile(r"^#{1,6}\s")
_ITEM = re.compile(r"^([-*+]|\d{1,9}[.)])\s")


def block_tail(block: str, most: int) -> str:
    """Return the end of a block, about `most` characters; the end of code is code, too."""
    if len(block) <= most:
        return block
    first, tail = block.partition("\n")[0], block[-most:]
    return f"{first}\n{tail.partition(chr(10))[2] or tail}" if _FENCE.match(first) else tail


class MarkdownBlocks:
    """A text that comes in pieces; `rest` is what is not finished yet.

    A block ends at a blank line if what follows does not go on with it, after a heading, and where a fence closes.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""
        self._fence = ""
        self._blank = False

    @property
    def rest(self) -> str:
        """Return what was not given out yet."""
        return "\n".join([*self._lines, self._open])

    def feed(self, text: str) -> list[str]:
        """Take the next piece, and return the blocks it finishes, in order."""
        *lines, self._open = (self._open + text).split("\n")
        return [block for line in lines for block in self._take(line)]

    def end(self) -> list[str]:
        """Return the blocks that are left, and begin anew."""
        blocks = [*self.feed("\n"), *self._cut()]
        self._open = ""
        return [block for block in blocks if block.strip()]

    def _take(self, line: str) -> list[str]:
        """Take a whole line, and return the blocks that are finished by it: none, the one before, itself, or both."""
        if self._fence:
            self._lines.append(line)
            return self._cut() if self._closes(line) else []
        if not line.strip():
            self._blank = bool(self._lines)
            self._lines += [line] * self._blank
            return []
        done = self._cut() if self._ends_before(line) else []
        self._blank = False
        self._lines.append(line)
        if opened := _FENCE.match(line):
            self._fence = opened["mark"]
        elif _HEADING.match(line):
            return [*done, *self._cut()]
        return done

    def _ends_before(self, line: str) -> bool:
        """Tell whether what was taken so far is finished, now that `line` follows it."""
        if line[0] in " \t":
            return False
        loose = self._blank and not (_ITEM.match(line) and self._lines and _ITEM.match(self._lines[0]))
        return loose or (bool(_FENCE.match(line)) and bool(self._lines))

    def _closes(self, line: str) -> bool:
        mark = line.strip()
        return len(mark) >= len(self._fence) and set(mark) == {self._fence[0]}

    def _cut(self) -> list[str]:
        block = "\n".join(self._lines).strip("\n")
        self._lines, self._fence, self._blank = [], "", False
        return [block] if block else []
