"""Merge two versions of a `go.mod` by its directives, and of a `go.sum` by its lines. Pure.

If both sides raise a requirement, the higher version wins, as in a build by Go.
https://go.dev/ref/mod#minimal-version-selection
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.not_mergeable import NotMergeable

RAISED = frozenset({"require", "go", "toolchain"})
"""Directives of which the higher version holds."""
_WORD = re.compile(r'"[^"]*"|`[^`]*`|[^\s]+')


class GoLine(Struct, frozen=True):
    """A line of a `go.mod`."""

    text: str
    key: tuple[str, str] | None
    """The directive and its subject; None for comments, brackets and empty lines."""
    version: str
    """The rest of the directive: the version, and for `require` its comment."""
    block: int
    """The number of its block in brackets; 0 outside of blocks."""


def merge_go_mod(base: str, ours: str, theirs: str) -> str:
    """Return the file with the changes of both sides, in the layout of ours. Raises NotMergeable with the reason."""
    was, mine, other = (_by_key(_read_lines(text)) for text in (base, ours, theirs))
    lines = list(_read_lines(ours))
    for key in {**was, **other}:
        before, now, here = was.get(key), other.get(key), mine.get(key)
        if _version_text(before) == _version_text(now) or _version_text(here) == _version_text(now):
            continue
        if _version_text(here) != _version_text(before):
            now = _higher_line(before, here, now)
            if now is None:
                raise NotMergeable(f"both sides change {' '.join(key).strip()}")
        if here is not None:
            at = lines.index(here)
            lines[at : at + 1] = [] if now is None else [_place_like(now, here)]
        elif now is not None:
            _insert_line(lines, now)
    return "".join(line.text for line in lines)


def merge_go_sum(base: str, ours: str, theirs: str) -> str:
    """Return the lines of both sides except those that one of them removed, sorted as Go writes them."""
    was, mine, other = (set(text.splitlines(keepends=True)) for text in (base, ours, theirs))
    removed = was - (mine & other)
    return "".join(sorted((mine | other) - removed))


def raised_alike(versions: FileVersions) -> FileVersions:
    """Return the versions of a `go.mod` with the higher version on both sides where both raise a requirement."""
    try:
        was, mine, other = (_by_key(_read_lines(text)) for text in (versions.base, versions.ours, versions.theirs))
    except NotMergeable:
        return versions
    ours, theirs = versions.ours, versions.theirs
    for key in mine.keys() & other.keys():
        higher = _higher_line(was.get(key), mine[key], other[key])
        if higher is not None and _version_text(mine[key]) != _version_text(other[key]):
            ours = ours.replace(mine[key].text, _place_like(higher, mine[key]).text)
            theirs = theirs.replace(other[key].text, _place_like(higher, other[key]).text)
    return FileVersions(versions.path, versions.base, ours, theirs)


def _higher_line(before: GoLine | None, ours: GoLine | None, theirs: GoLine | None) -> GoLine | None:
    """Return the line with the higher version if both sides only raise the version; None otherwise."""
    if ours is None or theirs is None or ours.key is None or ours.key[0] not in RAISED:
        return None
    known = [line for line in (before, ours, theirs) if line is not None]
    # A changed comment, such as `// indirect`, is more than another version.
    if len({line.text.partition("//")[2].strip() for line in known}) > 1:
        return None
    if before is not None and before.version in {ours.version, theirs.version}:
        return None
    if before is not None and any(version_key(each.version) < version_key(before.version) for each in (ours, theirs)):
        return None
    return max(ours, theirs, key=lambda line: version_key(line.version))


def version_key(version: str) -> tuple[object, ...]:
    """Return a sort key that orders versions as Go does: `v1.2.0-rc.1` < `v1.2.0` < `v1.10.0`."""
    words = version.split()
    core, _, build = (words[0] if words else "").removeprefix("v").removeprefix("go").partition("+")
    # A version of the language or a toolchain has no dash before its `rc1`.
    found = re.fullmatch(r"(\d+(?:\.\d+)*)(?:-(.*)|((?:rc|beta|alpha)\d+))?", core, re.DOTALL)
    if found is None:
        raise NotMergeable(f"unknown version format: {core[:80]}")
    pre = found[2] or re.sub(r"\d+", r".\g<0>", found[3] or "")
    main = tuple(int(each) for each in found[1].split("."))
    parts = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in pre.split(".") if each)
    return main, not pre, parts, build


def _version_text(line: GoLine | None) -> str | None:
    return None if line is None else line.version


def _read_lines(text: str) -> Iterator[GoLine]:
    block, directive = 0, ""
    opened = 0
    for line in text.splitlines(keepends=True):
        words = _WORD.findall(line.partition("//")[0])
        comment = line.partition("//")[2].strip()
        if not words:
            yield GoLine(line, None, "", block)
        elif block and words == [")"]:
            yield GoLine(line, None, "", block)
            block, directive = 0, ""
        elif len(words) == 2 and words[1] == "(":
            opened += 1
            block, directive = opened, words[0]
            yield GoLine(line, None, "", block)
        elif "(" in words or ")" in words:
            raise NotMergeable(f"unknown line format: {line.strip()}")
        else:
            name, *rest = [directive, *words] if block else words
            yield GoLine(line, *_directive_key(name, rest, comment), block)


def _directive_key(name: str, words: Sequence[str], comment: str) -> tuple[tuple[str, str], str]:
    if name in {"go", "toolchain", "module"}:
        return (name, ""), " ".join(words)
    if name == "replace" and "=>" in words:
        at = words.index("=>")
        return (name, " ".join(words[:at])), " ".join(words[at:])
    if name == "require" and len(words) == 2:
        return (name, words[0]), f"{words[1]} {comment}".strip()
    return (name, " ".join(words)), comment


def _by_key(lines: Iterator[GoLine]) -> dict[tuple[str, str], GoLine]:
    found: dict[tuple[str, str], GoLine] = {}
    for line in lines:
        if line.key in found:
            raise NotMergeable(f"{' '.join(line.key)} occurs twice")
        if line.key is not None:
            found[line.key] = line
    return found


def _place_like(line: GoLine, where: GoLine) -> GoLine:
    # Written as the line that it replaces: inside or outside of brackets.
    return GoLine(_line_text(line, in_block=bool(where.block)), line.key, line.version, where.block)


def _line_text(line: GoLine, *, in_block: bool) -> str:
    name = line.key[0] if line.key else ""
    bare = line.text.strip().removeprefix(f"{name} ").strip() if not line.block else line.text.strip()
    return f"\t{bare}\n" if in_block else f"{name} {bare}\n"


def _insert_line(lines: list[GoLine], new: GoLine) -> None:
    name = new.key[0] if new.key else ""
    # Go keeps direct and indirect requirements in blocks of their own.
    indirect = "indirect" in new.version
    alike = [line for line in lines if line.key and line.key[0] == name]
    beside = [line for line in alike if ("indirect" in line.version) == indirect] or alike
    if not beside:
        lines.append(GoLine("\n" + _line_text(new, in_block=False), new.key, new.version, 0))
        return
    block = beside[-1].block
    there = [line for line in lines if line.block == block and line in beside]
    after = [line for line in there if str(line.key) < str(new.key)]
    at = lines.index(after[-1]) + 1 if after else lines.index(there[0])
    lines.insert(at, GoLine(_line_text(new, in_block=bool(block)), new.key, new.version, block))
