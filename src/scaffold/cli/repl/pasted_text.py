"""Long pasted texts: a short mark stands for each of them in the input line, and is replaced when the line is sent."""

import re

MIN_LINES = 8
MIN_CHARACTERS = 1_500
"""A shorter paste stays in the line as it is."""
_MARK = re.compile(r"\[pasted text(?: \d+)?, [\d,]+ (?:lines|characters)\]")


class PastedTexts:
    """The pasted texts of one input line, by their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, pasted: str, *, at_start: bool = False) -> str:
        """Return what to insert for a paste: the text itself, or a mark for a long one.

        `at_start` says that it begins the line. A `!` there is no command, as it was not typed: a space precedes it.
        """
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        return (" " if at_start and text.startswith("!") else "") + self._add_mark(text)

    def _add_mark(self, text: str) -> str:
        lines = text.rstrip("\n").count("\n") + 1
        if lines < MIN_LINES and len(text) < MIN_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        number = f" {len(self._texts) + 1}" if self._texts else ""
        mark = f"[pasted text{number}, {size}]"
        self._texts[mark] = text
        return mark

    def expand(self, line: str) -> str:
        """Return the line with the pasted texts instead of their marks."""
        # In one pass: a pasted text may itself contain something like a mark.
        return _MARK.sub(lambda mark: self._texts.get(mark[0], mark[0]), line)

    def mark_before(self, text: str) -> str:
        """Return the mark that `text` ends with; empty if it ends with none."""
        return next((mark for mark in self._texts if text.endswith(mark)), "")

    def forget(self, mark: str) -> None:
        """Forget the text of a mark: it was deleted."""
        del self._texts[mark]

    def clear(self) -> None:
        """Forget the texts: the line was sent."""
        self._texts.clear()
