"""Find what keeps changed code from those who use or check the work: lines of MANIFEST.in, and unusual encodings."""

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from itertools import islice

PACKAGE_LIST = "MANIFEST.in"
IGNORE_FILES = frozenset({".gitignore", ".ignore"})
"""Files by which linters leave out files even if they are tracked, and some build tools, too."""
CODE_SUFFIXES = (".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs")

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PROBE = "a\\x0a\\n\\u000a +AAo- ~{~} \x1b$B!!\x1b(B xn--a"
"""ASCII that encodings with escapes of their own read as something else."""


def new_exclusions(before: str, after: str, folder: str, paths: Collection[str]) -> Iterator[str]:
    """Yield the lines that only the second version of a MANIFEST.in has and that exclude one of the paths.

    `folder` is that of the file, and patterns are relative to it.
    """
    prefix = f"{folder}/" if folder else ""
    inside = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    known = set(map(str.strip, before.splitlines()))
    for line in dict.fromkeys(map(str.strip, after.splitlines())):
        if line not in known and any(_line_excludes(line.split(), path) for path in inside):
            yield line


def _line_excludes(words: list[str], path: str) -> bool:
    match words:
        case ["exclude", *patterns]:
            return any(_matches_parts(path, pattern) for pattern in patterns)
        case ["global-exclude", *patterns]:
            return any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in patterns)
        case ["recursive-exclude", folder, *patterns]:
            return _is_below(path, folder) and any(fnmatchcase(path.rpartition("/")[2], each) for each in patterns)
        case ["prune", folder]:
            return _is_below(path, folder)
        case _:
            return False


def _is_below(path: str, pattern: str) -> bool:
    depth = pattern.rstrip("/").count("/") + 1
    parts = path.split("/")
    return len(parts) > depth and _matches_parts("/".join(parts[:depth]), pattern.rstrip("/"))


def _matches_parts(path: str, pattern: str) -> bool:
    """Return True if each part of a path matches that of a pattern: `*` stands for no slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def misleading_encoding(source: bytes) -> str | None:
    """Return the declared encoding of a Python source if plain ASCII means something else in it; None if not.

    In `unicode_escape` a comment may contain code.
    """
    for line in islice(source.splitlines(), 2):
        cookie = _COOKIE.match(line)
        if cookie is not None:
            name = cookie[1].decode()
            try:
                plain = _PROBE.encode().decode(name) == _PROBE
            except (LookupError, ValueError):
                plain = False
            return None if plain else name
    return None
