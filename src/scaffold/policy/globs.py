"""Globs over repository paths, with a real `**`."""

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    segments = glob.strip("/").split("/")
    parts: list[str] = []
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            parts.append(".*" if last else "(?:[^/]+/)*")
            continue
        parts.append(_segment(segment) + ("" if last else "/"))
    return re.compile("".join(parts) + r"(?:/.*)?", re.DOTALL)


def _segment(segment: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(segment):
        char = segment[position]
        position += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := segment.find("]", position + 1)) > 0:
            body = segment[position:end].replace("\\", r"\\").replace("[", r"\[")
            out.append("[" + ("^" + body[1:] if body.startswith("!") else body) + "]")
            position = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def matches(glob: str, path: str) -> bool:
    """Tell whether `path` (relative, `/` between segments) or a folder it lies in matches `glob`.

    `*` and `?` stay within a segment, `**` crosses any number of them, `[a-z]` and `[!a]` are classes.
    A glob without a slash matches from the root, as all others do; `**/x` finds `x` anywhere.
    """
    return _pattern(glob).fullmatch(path) is not None
