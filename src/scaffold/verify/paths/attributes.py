"""Find changes that keep files from users or checks: .gitattributes, MANIFEST.in, and unusual encodings.

Checks run on our own checkout, without filters. Attributes that every checkout and archive obeys, such as `eol`,
`ident` and `working-tree-encoding`, do not affect what is proven.
"""

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from itertools import islice

PACKAGE_LIST = "MANIFEST.in"
IGNORE_FILES = frozenset({".gitignore", ".ignore"})
"""Files that make linters and some build tools leave out files, even tracked ones."""
CODE_SUFFIXES = (".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PROBE = "a\\x0a\\n\\u000a +AAo- ~{~} \x1b$B!!\x1b(B xn--a"
"""ASCII that encodings with escapes of their own read as something else."""
ATTRIBUTES_FILE = ".gitattributes"
DECIDING = frozenset({"export-ignore", "export-subst", "filter"})
"""Attributes that leave files out of archives, change them there, or change them where the filter is configured."""
MACRO = "[attr]"
Setting = tuple[str, str]
"""(pattern, attribute as written): `("docs/", "export-ignore")`."""


def is_attributes_file(path: str) -> bool:
    """Return True for a .gitattributes file, in any folder."""
    return path.rpartition("/")[2].casefold() == ATTRIBUTES_FILE


def changed_export_settings(before: bytes | None, after: bytes | None, top: bytes | None = None) -> tuple[str, ...]:
    """Return the differing lines of two versions, as `PATTERN ATTRIBUTE`, that decide which files users get.

    `top` is the file at the top after the change, whose macros count in all folders. A missing version is None.
    """
    old, new = (text.decode(errors="replace") if text else "" for text in (before, after))
    texts = [old, new, top.decode(errors="replace") if top else ""]
    macros = [words for text in texts for words in _attribute_lines(text) if words[0].startswith(MACRO)]
    found = set(DECIDING)
    while (
        more := {
            words[0].removeprefix(MACRO) for words in macros if not found.isdisjoint(map(_attribute_name, words[1:]))
        }
        - found
    ):
        found |= more
    deciding = frozenset(found)
    were, are = list(_deciding_settings(old, deciding)), list(_deciding_settings(new, deciding))
    # The last matching line counts, so the order matters.
    if were == are:
        return ()
    differing = [each for each in (*are, *were) if (each in were) != (each in are)]
    return tuple(dict.fromkeys(" ".join(each) for each in differing or are))


def _deciding_settings(text: str, deciding: Collection[str]) -> Iterator[Setting]:
    for pattern, *attributes in _attribute_lines(text):
        yield from ((pattern, each) for each in attributes if _attribute_name(each) in deciding)


def _attribute_lines(text: str) -> Iterator[list[str]]:
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith('"'):
            at = 1
            while at < len(stripped) and stripped[at] != '"':
                at += 2 if stripped[at] == "\\" else 1
            end = at + 1
            words = [stripped[:end], *stripped[end:].split()]
        else:
            words = stripped.split()
        if words and not words[0].startswith("#"):
            yield words


def _attribute_name(attribute: str) -> str:
    """Return the name of an attribute as it is set (`a`, `a=value`), unset (`-a`) or left unspecified (`!a`)."""
    return attribute.lstrip("-!").partition("=")[0]


def new_exclusions(before: str, after: str, folder: str, paths: Collection[str]) -> Iterator[str]:
    """Yield the new lines of a MANIFEST.in that exclude one of the paths.

    `folder` contains the file, and patterns are relative to it.
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
    # Each part matches a part of the pattern: `*` stands for no slash.
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def misleading_encoding(source: bytes) -> str | None:
    """Return the declared encoding of a Python source if plain ASCII means something else in it, or None.

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
