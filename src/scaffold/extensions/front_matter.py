"""Markdown files with front matter: YAML between two lines of `---`, then text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from scaffold.core.printable_text import one_line, printable, short_line

MAX_HEAD_CHARS = 20_000
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"([A-Za-z][\w-]*):[ \t]+(\S.*)")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PromptFile(Struct, frozen=True):
    """A file's front matter, empty if it has none, and its text."""

    head: Mapping[str, Any]
    text: str
    problem: str = ""
    """Why the front matter cannot be read; empty if it can."""

    def words(self, name: str, limit: int) -> str:
        """Return a member as one line; empty if it is not text."""
        value = self.head.get(name)
        return short_line(one_line(value).strip(), limit) if isinstance(value, str) else ""

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a member that is a list, or a text with commas or blanks; None if it is not given."""
        value = self.head.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return tuple(_split_names(value))
        return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def read_prompt_file(content: bytes) -> PromptFile:
    """Return a file as its parts."""
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    found = _HEAD.match(text)
    if found is None:
        problem = "its front matter has no end" if text.startswith("---\n") else ""
        return PromptFile({}, printable(text).strip(), problem)
    body = printable(text[found.end() :]).strip()
    if len(found[1]) > MAX_HEAD_CHARS or ("&" in found[1] and "*" in found[1]):
        # Aliases could make a few lines to millions of values, and no front matter needs them.
        return PromptFile(_plain_lines(found[1][:MAX_HEAD_CHARS]), body)
    try:
        head = yaml.load(found[1], Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        # `description: use it when: ...` is not YAML, but common.
        head = _plain_lines(found[1])
        return PromptFile(head, body, "" if head else "its front matter is no valid YAML")
    if head is None:
        return PromptFile({}, body)
    return PromptFile(head, body) if isinstance(head, dict) else PromptFile({}, body, "its front matter is no mapping")


def _plain_lines(text: str) -> dict[str, str]:
    """Return the lines `name: value`, the values as they are written."""
    return {found[1]: found[2].strip().strip("\"'") for line in text.splitlines() if (found := _PLAIN.fullmatch(line))}


def _split_names(text: str) -> Sequence[str]:
    """Return the names in a text; a pattern in brackets may contain blanks and commas."""
    return [each for each in re.findall(r"[^\s,(]+(?:\([^)]*\))?", text) if each]
