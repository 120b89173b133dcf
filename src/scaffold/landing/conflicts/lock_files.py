"""Lock files in conflict: from which text their own tool starts, and what it has to keep. Pure.

A lock file is neither merged nor certified by its lines. Its entries are brought together by the names of packages, so
that the tool finds the versions of both sides in it and needs no index; the tool then makes it fit the merged manifest.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.conflict import FileVersions
from scaffold.landing.conflicts.not_mergeable import NotMergeable

MAX_BYTES = 20 * 1024 * 1024
"""The largest lock file that is made again."""
LOCK_FILES = frozenset({
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "composer.lock"),
    *("Cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Gemfile.lock", "flake.lock"),
})  # fmt: skip
"""Files that a tool computes from a manifest: no merge of their lines is right."""
PACKAGE = "[[package]]\n"
_INDENT = re.compile(r"\A\{\n([ \t]+)")

Versions = Mapping[str, frozenset[str]]
"""The versions of each package, by its name."""


class LockTool(Struct, frozen=True):
    """The program that makes a lock file, run in the folder of the file, and the format of that."""

    argv: tuple[str, ...]
    """It reaches no network, runs no scripts of packages, and changes versions only where it must."""
    format: Literal["npm", "toml"]

    @property
    def program(self) -> str:
        """The name of the program."""
        return self.argv[0]

    @property
    def command(self) -> str:
        """The command as people write it."""
        return " ".join(self.argv)


NPM = LockTool(
    ("npm", "install", "--package-lock-only", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"), "npm"
)
LOCK_TOOLS: Mapping[str, LockTool] = {
    "package-lock.json": NPM,
    "npm-shrinkwrap.json": NPM,
    "Cargo.lock": LockTool(("cargo", "update", "--workspace", "--offline"), "toml"),
    "uv.lock": LockTool(("uv", "lock", "--offline"), "toml"),
}
"""The tools that can make their file without a network, by its name. The others of LOCK_FILES have none that can."""


def is_lock_file(path: str) -> bool:
    """Return whether a path is named like a file that only its tool makes."""
    return PurePosixPath(path).name in LOCK_FILES


def lock_tool(path: str) -> LockTool | None:
    """Return the tool that makes the lock file at a path; None if none is known that needs no network."""
    return LOCK_TOOLS.get(PurePosixPath(path).name)


def text_to_start_from(versions: FileVersions, tool: LockTool) -> str:
    """Return the lock file with the packages of both sides, for its tool; raise NotMergeable if a side is no such file.

    Of a package that both sides changed, it has what landed first.
    """
    _versions_of_sides(versions, tool)
    sides = versions.base, versions.ours, versions.theirs
    if tool.format == "npm":
        base, ours, theirs = map(_json, sides)
        return _written(_merged(base, ours, theirs), versions.ours)
    was, mine, other = map(_blocks, sides)
    merged = {name: _block(*(each.get(name, "") for each in (was, mine, other))) for name in {**mine, **other}}
    head, *packages = (merged.pop(""), *(merged[name] for name in sorted(merged)))
    return (head + "".join(packages)).rstrip("\n") + "\n"


def require_versions(versions: FileVersions, tool: LockTool, made: str) -> None:
    """Raise NotMergeable if a file that its tool made has other versions of packages than the sides.

    A version that only one side changed must be there, and there is none that neither side has.
    """
    base, ours, theirs = _versions_of_sides(versions, tool)
    now = _versions(made, tool)
    for name in sorted({**base, **ours, **theirs, **now}):
        was, mine, other = (each.get(name, frozenset()) for each in (base, ours, theirs))
        decided = mine if other in (was, mine) else other if mine == was else frozenset()
        found = now.get(name, frozenset())
        if not decided <= found or not found <= mine | other:
            wanted = decided or mine | other
            raise NotMergeable(f"it would have {name} {_shown(found)}, and not {_shown(wanted)}")


def _shown(found: frozenset[str]) -> str:
    return ", ".join(sorted(found)) or "in no version"


def _versions_of_sides(versions: FileVersions, tool: LockTool) -> tuple[Versions, Versions, Versions]:
    base, ours, theirs = (_versions(text, tool) for text in (versions.base, versions.ours, versions.theirs))
    return base, ours, theirs


def _versions(text: str, tool: LockTool) -> Versions:
    pairs = (_npm_pairs if tool.format == "npm" else _toml_pairs)(text)
    found: dict[str, set[str]] = {}
    for name, version in pairs:
        found.setdefault(name, set()).add(version)
    return {name: frozenset(each) for name, each in found.items()}


def _npm_pairs(text: str) -> Iterator[tuple[str, str]]:
    packages = _json(text).get("packages", {} if not text else None)
    if not isinstance(packages, dict):
        raise NotMergeable("it has no `packages`: its format is older than npm 7")
    for path, entry in packages.items():
        if path and isinstance(entry, dict):
            yield str(entry.get("name") or path.rpartition("node_modules/")[2]), str(entry.get("version", ""))


def _toml_pairs(text: str) -> Iterator[tuple[str, str]]:
    packages = _toml(text).get("package", [])
    for entry in packages if isinstance(packages, list) else ():
        yield str(entry.get("name")), str(entry.get("version", ""))


def _json(text: str) -> dict[str, Any]:
    found = _parsed(json.loads, text or "{}")
    if not isinstance(found, dict):
        raise NotMergeable("it is no lock file: its value is no object")
    return found


def _toml(text: str) -> dict[str, Any]:
    return _parsed(tomllib.loads, text)  # type: ignore[no-any-return]


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise NotMergeable(f"it is no lock file: {error}") from error


def _merged(base: Any, ours: Any, theirs: Any) -> Any:
    """Return a value with the changes of both sides; of what both changed, ours, and the items of both lists."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return _merged_list(base if isinstance(base, list) else [], ours, theirs)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return theirs if ours == base else ours
    was = base if isinstance(base, dict) else {}
    merged = {}
    for key in {**ours, **theirs}:
        value = _merged(was.get(key), ours.get(key), theirs.get(key))
        if value is not None:
            merged[key] = value
    return merged


def _merged_list(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    kept = [each for each in ours if each in theirs or each not in base]
    merged = kept + [each for each in theirs if each not in base and each not in ours]
    is_sorted = all(side == sorted(side, key=_inline) for side in (ours, theirs))
    return sorted(merged, key=_inline) if is_sorted else merged


def _written(value: Any, like: str) -> str:
    """Return JSON indented as another text: npm keeps that."""
    indent = _INDENT.match(like)
    return json.dumps(value, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _blocks(text: str) -> dict[str, str]:
    """Return the text of each package with all its versions, by its name; under an empty name what is before them."""
    head, *packages = f"\n{text}".split(f"\n{PACKAGE}")
    found = {"": head.removeprefix("\n").rstrip("\n") + "\n\n" if head.strip() else ""}
    for each in packages:
        block = f"{PACKAGE}{each.rstrip()}\n\n"
        name = next(_toml_pairs(block), ("", ""))[0]
        found[name] = found.get(name, "") + block
    return found


def _block(base: str, ours: str, theirs: str) -> str:
    """Return a package as one side has it, or with the changes of both; if it has several versions, as ours."""
    if ours == base:
        return theirs
    if theirs in (base, ours):
        return ours
    if not ours or not theirs:
        return ours or theirs
    was, mine, other = (_toml(text).get("package", []) for text in (base, ours, theirs))
    if len(mine) != 1 or len(other) != 1 or len(was) > 1:
        return ours
    return f"{PACKAGE}{_table('package', _merged(was[0] if was else None, mine[0], other[0]))}\n"


def _table(name: str, values: Mapping[str, Any]) -> str:
    """Return a table as uv and cargo write it: an item of a list in each line, tables that have lists at the end."""
    own, inner = "", ""
    for key, value in values.items():
        if isinstance(value, dict) and any(isinstance(each, list | dict) for each in value.values()):
            inner += f"\n[{name}.{key}]\n{_table(f'{name}.{key}', value)}"
        elif isinstance(value, list) and value:
            own += f"{key} = [\n{''.join(f'    {_inline(each)},' + chr(10) for each in value)}]\n"
        else:
            own += f"{key} = {_inline(value)}\n"
    return own + inner


def _inline(value: Any) -> str:
    """Return a value in one line of TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_inline(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int | float) else str(value)
