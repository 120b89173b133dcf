"""What a plain reader finds in the answer of a tool, by rules that would fit the answers of any program."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

NEAR = 0.6
"""Names at least this similar may be the same, from 0 to 1."""
_PATH = re.compile(r"(?:[\w.~@+-]*/)+[\w.@+-]*|[\w-]+(?:\.\w+)+")
_NUMBERED = re.compile(r"^[ +]?(\d+)(?:\t|: )(.*)$", re.MULTILINE)
_SUGGESTION = re.compile(r"(?:[Dd]id you mean|[Uu]se|[Cc]all|[Ww]ith|[Tt]ry|or|in) `?([\w./-]*[\w/])`?")
_REREAD = re.compile(r"\b(?:read|look at) (?:it|the file|them|these lines)\b", re.IGNORECASE)


def similar(one: str, other: str) -> float:
    """Return how similar two names are, whatever their case and separators."""
    first, second = (re.sub(r"[\W_]", "", name).lower() for name in (one, other))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def nearest(name: str, offered: Sequence[str]) -> str:
    """Return the offered name that is most like `name`; empty if none is near."""
    best = max(offered, key=lambda each: similar(name, each), default="")
    return best if best and similar(name, best) >= NEAR else ""


def nearest_path(path: str, offered: Sequence[str]) -> str:
    """Return the offered path whose last name is most like that of `path`, of equals the most similar one."""
    last = path.rstrip("/").rpartition("/")[2]
    near = [each for each in offered if similar(last, each.rstrip("/").rpartition("/")[2]) >= NEAR]
    return max(
        near, key=lambda each: (similar(last, each.rstrip("/").rpartition("/")[2]), similar(path, each)), default=""
    )


def paths_in(text: str) -> Sequence[str]:
    """Return everything in a text that looks like a path."""
    return tuple(dict.fromkeys(found.rstrip(".") for found in _PATH.findall(text)))


def numbered_lines(text: str) -> dict[int, str]:
    """Return the lines that a text shows with their numbers; removed lines of a comparison do not count."""
    return {int(number): line for number, line in _NUMBERED.findall(text)}


def suggestions(text: str) -> Sequence[str]:
    """Return the names that a text proposes: after `use`, `call`, `did you mean` and the like."""
    return tuple(_SUGGESTION.findall(text))


def tools_in(text: str, tools: Sequence[str]) -> Iterator[str]:
    """Yield the tools that a text names, in its order."""
    yield from (word for word in re.findall(r"\w+", text) if word in tools)


def says_read_again(text: str) -> bool:
    """Return whether a text asks to read the file."""
    return _REREAD.search(text) is not None


def line_numbers(text: str) -> Sequence[int]:
    """Return the line numbers that a text names."""
    named = re.search(r"\blines? ([\d, ]+\d|\d+)", text)
    return tuple(map(int, re.findall(r"\d+", named[1]))) if named else ()


def quoted(text: str) -> Sequence[str]:
    """Return the words in backquotes."""
    return tuple(re.findall(r"`([^`\n]+)`", text))
