"""Lock files in conflict: the text that their own tool starts from, and the versions that it has to keep. Pure.

A lock file is neither merged nor certified by its lines. Its entries are merged by package name, so that the tool finds
the versions of both sides and needs no package index; the tool then fits the file to the merged manifest.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.plan.text.bounded import read_json, read_toml

MAX_BYTES = 20 * 1024 * 1024
"""The largest lock file that is regenerated."""
PACKAGE = "[[package]]\n"
_INDENT = re.compile(r"\A\{\n([ \t]+)")
CONTENTS = ("source", "resolved", "integrity", "checksum", "sdist", "wheels")
"""The fields of an entry that identify the contents of one version and their source."""
LOCAL_SOURCES = frozenset({"virtual", "editable"})
"""How uv marks a package that is part of the repository itself."""
_Entry: TypeAlias = dict[str, Any]
Fields = Mapping[str, frozenset[str]]
"""The values of each of CONTENTS in all entries of one version, as text; empty where the field is absent."""
Versions = Mapping[str, Mapping[str, Fields]]
"""{package: {version: fields}}."""


class LockTool(Struct, frozen=True):
    """The program that makes a lock file, run in the folder of the file, and the file's format."""

    argv: tuple[str, ...]
    """Offline, without scripts of packages; versions change only where they must."""
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
"""The tools that work without a network, by file name; the other LOCK_FILES have no such tool."""


def lock_tool(path: str) -> LockTool | None:
    """Return the tool that makes the lock file at a path; None if no known tool works without a network."""
    return LOCK_TOOLS.get(PurePosixPath(path).name)


def text_to_start_from(versions: FileVersions, tool: LockTool) -> str:
    """Return a lock file with the packages of both sides, for its tool; raise NotMergeable if a side cannot be read.

    Of a package that both sides changed, the landed version is taken. Fields are merged only within one version of a
    package: those of one version say nothing about another.
    """
    _versions_of_sides(versions, tool)
    sides = versions.base, versions.ours, versions.theirs
    if tool.format == "npm":
        base, ours, theirs = map(_read_json, sides)
        # npm keeps the indentation of the file.
        indent = _INDENT.match(versions.ours)
        merged_json = _merge_values(base, ours, theirs)
        return json.dumps(merged_json, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    was, mine, other = map(_package_blocks, sides)
    merged = {name: _merge_block(*(each.get(name, "") for each in (was, mine, other))) for name in {**mine, **other}}
    head, *packages = (merged.pop(""), *(merged[name] for name in sorted(merged)))
    return (head + "".join(packages)).rstrip("\n") + "\n"


def require_versions(versions: FileVersions, tool: LockTool, made: str) -> None:
    """Raise NotMergeable if a file that its tool made does not have the package versions of the sides.

    Each version that a side added, or that both have, must be there: nothing here can tell whether the merged manifest
    still needs it. Versions that neither side has are refused, and so are other contents of a version.
    """
    base, ours, theirs = _versions_of_sides(versions, tool)
    now = _read_versions(made, tool)
    for name in sorted({**base, **ours, **theirs, **now}):
        was, mine, other, found = (each.get(name, {}) for each in (base, ours, theirs, now))
        wanted, allowed = _wanted_values(was.keys(), mine.keys(), other.keys()), mine.keys() | other.keys()
        if not wanted <= found.keys() <= allowed:
            raise NotMergeable(f"it would have {name} {_list_values(found)}, and not {_list_values(wanted or allowed)}")
        for version in sorted(found):
            _require_contents(name, version, was, (mine, other), found[version])


def _wanted_values(was: AbstractSet[str], mine: AbstractSet[str], other: AbstractSet[str]) -> AbstractSet[str]:
    # A merge must have what a side added, and what both have.
    return (mine & other) | (mine - was) | (other - was)


def _require_contents(
    name: str,
    version: str,
    base: Mapping[str, Fields],
    sides: tuple[Mapping[str, Fields], Mapping[str, Fields]],
    found: Fields,
) -> None:
    having = [each[version] for each in sides if version in each]
    for field in CONTENTS:
        values = [each[field] for each in having]
        was = base[version][field] if len(having) > 1 and version in base else frozenset()
        wanted, allowed = _wanted_values(was, values[0], values[-1]), values[0] | values[-1]
        if not wanted <= found[field] <= allowed:
            having_it = f"{name} {version} with {field} {_list_values(found[field])}"
            raise NotMergeable(f"it would have {having_it}, and not {_list_values(wanted or allowed)}")


def _list_values(found: Iterable[str]) -> str:
    return ", ".join(each or "none" for each in sorted(found)) or "in no version"


def _versions_of_sides(versions: FileVersions, tool: LockTool) -> tuple[Versions, Versions, Versions]:
    base, ours, theirs = (_read_versions(text, tool) for text in (versions.base, versions.ours, versions.theirs))
    return base, ours, theirs


def _read_versions(text: str, tool: LockTool) -> Versions:
    entries = (_npm_entries if tool.format == "npm" else _toml_entries)(text)
    found: dict[str, dict[str, Fields]] = {}
    for name, entry in entries:
        known = found.setdefault(name, {})
        version = entry.get("version", "")
        fields = known.get(version, dict.fromkeys(CONTENTS, frozenset()))
        values = {
            each: json.dumps(entry[each], sort_keys=True, default=str) if each in entry else "" for each in CONTENTS
        }
        known[version] = {each: fields[each] | {values[each]} for each in CONTENTS}
    return found


def _npm_entries(text: str) -> Iterator[tuple[str, _Entry]]:
    packages = _read_json(text).get("packages", {} if not text else None)
    if not isinstance(packages, dict):
        raise NotMergeable("it has no `packages`: its format is older than npm 7")
    for path, entry in packages.items():
        known = _require_entry(entry)
        if path:
            yield known.get("name") or path.rpartition("node_modules/")[2], known


def _toml_entries(text: str) -> Iterator[tuple[str, _Entry]]:
    packages = _read_toml(text).get("package", [])
    if not isinstance(packages, list):
        raise NotMergeable("not a lock file: `package` is not a list of tables")
    for entry in packages:
        known = _require_entry(entry)
        if "name" not in known:
            raise NotMergeable("not a lock file: a package has no name")
        yield known["name"], known


def _require_entry(value: Any) -> _Entry:
    if not isinstance(value, dict):
        raise NotMergeable("not a lock file: a package is not a table")
    if any(not isinstance(value.get(key, ""), str) for key in ("name", "version")):
        raise NotMergeable("not a lock file: the name or version of a package is not a string")
    return value


def _read_json(text: str) -> dict[str, Any]:
    found = _parse_text(read_json, text or "{}")
    if not isinstance(found, dict):
        raise NotMergeable("not a lock file: its value is not an object")
    return found


def _read_toml(text: str) -> dict[str, Any]:
    return _parse_text(read_toml, text)  # type: ignore[no-any-return]


def _parse_text(parse: Callable[..., Any], text: str) -> Any:
    try:
        return parse(text, most_chars=MAX_BYTES)
    except ValueError as error:
        raise NotMergeable(f"not a lock file: {error}") from error


def _merge_values(base: Any, ours: Any, theirs: Any) -> Any:
    """Return a value with the changes of both sides; where both changed it, ours, or the items of both lists."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return _merge_lists(base if isinstance(base, list) else [], ours, theirs)
    was = base if isinstance(base, dict) else {}
    # Entries of different versions are not mixed, unless the package is part of the repository.
    if (
        not isinstance(ours, dict)
        or not isinstance(theirs, dict)
        or (ours.get("version") != theirs.get("version") and not (_is_local(ours) and _is_local(theirs)))
    ):
        return theirs if ours == base or _only_theirs(was, ours, theirs) else ours
    merged = {}
    for key in {**ours, **theirs}:
        value = _merge_values(was.get(key), ours.get(key), theirs.get(key))
        if value is not None:
            merged[key] = value
    return merged


def _is_local(entry: _Entry) -> bool:
    source = entry.get("source", {})
    return isinstance(source, dict) and source.keys() <= LOCAL_SOURCES and entry.keys().isdisjoint(CONTENTS[1:])


def _only_theirs(base: Any, ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    return bool(base.get("version") == ours.get("version") != theirs.get("version"))


def _merge_lists(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    kept = [each for each in ours if each in theirs or each not in base]
    merged = kept + [each for each in theirs if each not in base and each not in ours]
    is_sorted = all(side == sorted(side, key=_inline_text) for side in (ours, theirs))
    return sorted(merged, key=_inline_text) if is_sorted else merged


def _package_blocks(text: str) -> dict[str, str]:
    """Return {package: text of all its versions}; under the empty name, the text before them."""
    head, *packages = f"\n{text}".split(f"\n{PACKAGE}")
    found = {"": head.removeprefix("\n").rstrip("\n") + "\n\n" if head.strip() else ""}
    for each in packages:
        block = f"{PACKAGE}{each.rstrip()}\n\n"
        name = next((name for name, _ in _toml_entries(block)), "")
        found[name] = found.get(name, "") + block
    return found


def _merge_block(base: str, ours: str, theirs: str) -> str:
    if ours == base:
        return theirs
    if theirs in (base, ours):
        return ours
    if not ours or not theirs:
        return ours or theirs
    was, mine, other = (_read_toml(text).get("package", []) for text in (base, ours, theirs))
    # Several versions of a package cannot be matched, so what has landed stays.
    if len(mine) != 1 or len(other) != 1 or len(was) > 1:
        return ours
    return f"{PACKAGE}{_table_text('package', _merge_values(was[0] if was else None, mine[0], other[0]))}\n"


def _table_text(name: str, values: Mapping[str, Any]) -> str:
    # As uv and cargo write it: one list item per line, tables that have lists at the end.
    own, inner = "", ""
    for key, value in values.items():
        if isinstance(value, dict) and any(isinstance(each, list | dict) for each in value.values()):
            inner += f"\n[{name}.{key}]\n{_table_text(f'{name}.{key}', value)}"
        elif isinstance(value, list) and value:
            own += f"{key} = [\n{''.join(f'    {_inline_text(each)},' + chr(10) for each in value)}]\n"
        else:
            own += f"{key} = {_inline_text(value)}\n"
    return own + inner


def _inline_text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_inline_text(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline_text, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int | float) else str(value)
