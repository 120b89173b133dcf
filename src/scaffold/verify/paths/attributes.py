"""Find what .gitattributes files change about the files that users get: those of an archive, or of their own checkout.

Checks run on a checkout of ours, without filters. Attributes that every checkout and archive obeys, such as `eol`,
`ident` and `working-tree-encoding`, change nothing about what is proven.
"""

from collections.abc import Collection, Iterator

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
    """Return the lines, as `PATTERN ATTRIBUTE`, that differ between two versions and decide what users get.

    `top` is the file at the top after the change, whose macros count in all folders. A missing version is None.
    """
    old, new = (text.decode(errors="replace") if text else "" for text in (before, after))
    deciding = _deciding_attributes([old, new, top.decode(errors="replace") if top else ""])
    were, are = list(_deciding_settings(old, deciding)), list(_deciding_settings(new, deciding))
    # The last line that matches counts, so another order is another meaning.
    if were == are:
        return ()
    differing = [each for each in (*are, *were) if (each in were) != (each in are)]
    return tuple(dict.fromkeys(" ".join(each) for each in differing or are))


def _deciding_attributes(texts: Collection[str]) -> frozenset[str]:
    """Return the deciding attributes and the macros that set one of them, directly or by another macro."""
    macros = [words for text in texts for words in _attribute_lines(text) if words[0].startswith(MACRO)]
    found = set(DECIDING)
    while (
        more := {
            words[0].removeprefix(MACRO) for words in macros if not found.isdisjoint(map(_attribute_name, words[1:]))
        }
        - found
    ):
        found |= more
    return frozenset(found)


def _deciding_settings(text: str, deciding: Collection[str]) -> Iterator[Setting]:
    for pattern, *attributes in _attribute_lines(text):
        yield from ((pattern, each) for each in attributes if _attribute_name(each) in deciding)


def _attribute_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each line with attributes, a quoted pattern as one."""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith('"'):
            end = _quote_end(stripped)
            words = [stripped[:end], *stripped[end:].split()]
        else:
            words = stripped.split()
        if words and not words[0].startswith("#"):
            yield words


def _quote_end(line: str) -> int:
    at = 1
    while at < len(line) and line[at] != '"':
        at += 2 if line[at] == "\\" else 1
    return at + 1


def _attribute_name(attribute: str) -> str:
    """Return the name of an attribute as it is set (`a`, `a=value`), unset (`-a`) or left unspecified (`!a`)."""
    return attribute.lstrip("-!").partition("=")[0]
