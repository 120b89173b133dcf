"""Where a run has its source: the members of workspaces that package managers' files declare, read once a base."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.model import Run
from scaffold.core.printable_text import utf8_safe
from scaffold.git import commits
from scaffold.plan.collisions.layout import layout_of
from scaffold.plan.text.bounded import MAX_CHARS, BeyondLimit, read_json, read_toml
from scaffold.plan.text.parse_tree import read_yaml
from scaffold.policy.path import globs
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.notices import warn

MAX_COMPARED = 500_000
"""Patterns of a manifest times folders."""
MANIFESTS = ("pyproject.toml", "package.json", "pnpm-workspace.yaml", "Cargo.toml", "go.work")
"""At the top of a repository, the files that may declare a workspace."""


class Workspaces(Struct, frozen=True):
    """The folders of all members, and which files could not be read, with the reason for each."""

    packages: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = {}


class _Members(Struct, frozen=True):
    """Patterns for the folders of members, and for folders to leave out."""

    patterns: Sequence[str]
    excluded: Sequence[str] = ()


def find_workspaces(paths: Collection[str], contents: Mapping[str, bytes | None]) -> Workspaces:
    """Return the members of the workspaces of a repository with these files.

    `contents` has the existing `MANIFESTS`; None for an unreadable one. A member has a manifest of its
    own. Without a workspace, several modules of Go and several projects of Python are members, too.
    """
    found, unreadable = set[str](), dict[str, str]()
    for name, data in contents.items():
        own, read = _READERS[name]
        try:
            folders = tuple(_folders_with(paths, own))
            members = read(_decode_manifest(data))
            if len(folders) * (len(members.patterns) + len(members.excluded)) > MAX_COMPARED:
                raise BeyondLimit("has too many patterns for so many folders")
        except ValueError as error:
            unreadable[name] = str(error).partition("\n")[0] or "it cannot be read"
            continue
        found.update(_matching_folders(members, folders))
    for name in ("go.mod", "pyproject.toml"):
        modules = set(_folders_with(paths, name)) - {""}
        if len(modules) > 1:
            found |= modules
    return Workspaces(tuple(sorted(found)), unreadable)


def _decode_manifest(data: bytes | None) -> str:
    if data is None or len(data) > MAX_CHARS:
        raise ValueError("it is missing or too large")
    return data.decode()


def _folders_with(paths: Iterable[str], name: str) -> Iterator[str]:
    for path in paths:
        folder, _, last = path.rpartition("/")
        if last == name:
            yield folder


def _matching_folders(members: _Members, folders: Iterable[str]) -> Iterator[str]:
    wanted = [*map(_plain_pattern, members.patterns)]
    excluded = [*map(_plain_pattern, members.excluded)]
    for folder in folders:
        if (
            folder
            and any(_names_folder(each, folder) for each in wanted)
            and not any(_names_folder(each, folder) for each in excluded)
        ):
            yield folder


def _names_folder(pattern: str, folder: str) -> bool:
    deep = "**" in pattern
    return globs.matches(pattern, folder) and (deep or pattern.count("/") == folder.count("/"))


def _plain_pattern(pattern: str) -> str:
    return pattern.strip().removeprefix("./").rstrip("/")


def _value_at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _strings_of(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _toml_members(text: str, *below: str) -> _Members:
    workspace = _value_at(read_toml(text), *below)
    return _Members(_strings_of(_value_at(workspace, "members")), _strings_of(_value_at(workspace, "exclude")))


def _npm_members(text: str) -> _Members:
    workspaces = _value_at(read_json(text), "workspaces")
    return _with_exclusions(
        _strings_of(_value_at(workspaces, "packages") if isinstance(workspaces, dict) else workspaces)
    )


def _pnpm_members(text: str) -> _Members:
    return _with_exclusions(_strings_of(_value_at(read_yaml(text), "packages")))


def _with_exclusions(patterns: Sequence[str]) -> _Members:
    excluded = [each[1:] for each in patterns if each.startswith("!")]
    return _Members([each for each in patterns if not each.startswith("!")], excluded)


def _go_members(text: str) -> _Members:
    plain = re.sub(r"//[^\n]*", "", text)
    lines = [match[1] for match in re.finditer(r"^[ \t]*+use[ \t]++([^\s(]++)[ \t\r]*+$", plain, re.MULTILINE)]
    # A block ends at the next one: many that are open would each be searched to the end.
    found = re.finditer(r"^[ \t]*+use[ \t]*+\(([^()]*+)\)", plain, re.MULTILINE)
    blocks = [word for match in found for word in match[1].split()]
    return _Members([each.strip('"`') for each in (*lines, *blocks)])


_READERS: Mapping[str, tuple[str, Callable[[str], _Members]]] = {
    "pyproject.toml": ("pyproject.toml", lambda text: _toml_members(text, "tool", "uv", "workspace")),
    "package.json": ("package.json", _npm_members),
    "pnpm-workspace.yaml": ("package.json", _pnpm_members),
    "Cargo.toml": ("Cargo.toml", lambda text: _toml_members(text, "workspace")),
    "go.work": ("go.mod", _go_members),
}
"""For each file, the manifest that a member has, and what reads the patterns."""


async def ensure_source_layout(context: RunContext, run: Run) -> None:
    """Store the layout of the run's base, unless it is stored; one notice names the files that cannot be read."""
    if context.store.scheduling.has_layout(run.id, run.base_sha):
        return
    try:
        paths = [utf8_safe(path) for path in await commits.listed_paths(context.git, run.base_sha)]
        known = {*paths}
        names = [name for name in MANIFESTS if name in known]
        asked = [f"{run.base_sha}:{name}" for name in names]
        found = await commits.batch_contents(context.git, asked) if asked else ()
    except GitError as error:
        warn(context, run.id, f"Agents are not spread over directories: {error.what}.")
        return
    workspaces = find_workspaces(paths, dict(zip(names, found, strict=True)))
    for name, why in workspaces.unreadable.items():
        warn(context, run.id, f"{name} is ignored where agents are spread over packages: {why}")
    layout = layout_of(paths, workspaces.packages)
    with owner_transaction(context.store, run):
        context.store.scheduling.set_layout(run.id, run.base_sha, layout)
