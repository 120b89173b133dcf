"""Fit the environment of the base to a later commit: moved packages, and dependencies that the work declares."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange
from scaffold.verify.environment.check_env import PYTHON_PATH, TOP_PLACEHOLDER
from scaffold.verify.environment.dependencies import NODE_MODULES, VENV, dependency_hashes, selects_dependencies
from scaffold.verify.environment.generated_files import build_inputs
from scaffold.verify.environment.import_proof import python_modules, with_sources_first
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, as_texts, files_at_commit

READ = frozenset({"pyproject.toml", "setup.cfg", "package.json"})
"""Manifests of which only some parts select dependencies."""
NODE_PATTERNS = (
    "package*.json",
    "npm-shrinkwrap.json",
    "pnpm-*.yaml",
    "yarn.lock",
    "bun.lock*",
    ".npmrc",
    ".yarnrc.yml",
)
OTHER = "other"
NODE_KEYS = (
    *("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "workspaces"),
    *("overrides", "resolutions", "pnpm", "packageManager"),
)
PROJECT_KEYS = ("dependencies", "optional-dependencies", "requires-python", "scripts", "gui-scripts", "entry-points")
_NAME = re.compile(r"^[A-Za-z0-9@][\w.@/-]*")


class DependencyChange(Struct, frozen=True, kw_only=True):
    """The difference between the dependencies of two commits."""

    folders: frozenset[str]
    """The folders of installed packages that no longer fit: `.venv`, `node_modules`; `other` for other languages."""
    added: tuple[str, ...]
    """New entries, such as `requests>=2` or the name of a lock file, sorted."""


async def environment_of_commit(
    environment: CheckEnvironment, git: Git, changes: Sequence[PathChange], *, made_at: Commit, commit: Commit
) -> CheckEnvironment:
    """Return the environment for a later commit, given its changes since the environment was made.

    Generated files move with their packages; built files are left out if a possible source changed. Packages that moved
    to another source folder are imported from there.
    """
    built = environment.built and any(change.kind == "M" for change in changes)
    # Sources stay in place unless a file was added or deleted.
    if not built and not any(change.kind in {"A", "D"} and change.path.endswith(".py") for change in changes):
        return environment
    before, now = [tuple(await commits.listed_paths(git, each)) for each in (made_at, commit)]
    fitting = await _with_fitting_files(environment, git, made_at, commit, now)
    return _with_moved_sources(fitting, python_modules(before), python_modules(now))


async def _with_fitting_files(
    environment: CheckEnvironment, git: Git, made_at: Commit, commit: Commit, now: Sequence[str]
) -> CheckEnvironment:
    if not (environment.files or environment.built):
        return environment
    built = environment.built
    if built and await build_inputs(git, made_at) != await build_inputs(git, commit):
        built = ()
    renames, left = await commits.renames(git, made_at, commit), frozenset(map(_parent_folder, now))
    folders = {
        _parent_folder(old): _parent_folder(new) for old, new in renames.items() if _parent_folder(old) not in left
    }
    return structs.replace(
        environment, files=_move_files(environment.files, folders), built=_move_files(built, folders)
    )


def _with_moved_sources(
    environment: CheckEnvironment, before: Mapping[str, str], now: Mapping[str, str]
) -> CheckEnvironment:
    """Return the environment with the present source folders first, if a module is in another one than before."""
    if all(before.get(name, root) == root for name, root in now.items()):
        return environment
    first = environment.variables.get(PYTHON_PATH, "").split(os.pathsep)
    # As in the proof at the base: the top comes first only if needed, because its names could hide others.
    roots = {root for root in now.values() if root or TOP_PLACEHOLDER in first}
    # The fingerprint stays: results are stored by commit, which decides the folders.
    return (
        structs.replace(with_sources_first(environment, roots), fingerprint=environment.fingerprint)
        if roots
        else environment
    )


def _move_files(files: Sequence[CopiedFile], folders: Mapping[str, str]) -> tuple[CopiedFile, ...]:
    moved = []
    for file in files:
        folder, _, name = file.target.rpartition("/")
        moved.append(structs.replace(file, target="/".join(filter(None, (folders.get(folder, folder), name)))))
    return tuple(moved)


def _parent_folder(path: str) -> str:
    return path.rpartition("/")[0]


async def dependency_change(git: Git, changed: Iterable[str], before: Commit, now: Commit) -> DependencyChange | None:
    """Return the change of the declared dependencies in the `changed` paths, or None."""
    if not any(map(selects_dependencies, changed)):
        return None
    old, new = await declared_dependencies(git, before), await declared_dependencies(git, now)
    folders = frozenset(folder for folder in {**old, **new} if old.get(folder) != new.get(folder))
    if not folders:
        return None
    added = {
        entry.partition("\t")[0]
        for folder in folders
        for entry in new.get(folder, frozenset()) - old.get(folder, frozenset())
    }
    return DependencyChange(folders=folders, added=tuple(sorted(added)))


def names_of(added: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of added entries, without versions."""
    return tuple(dict.fromkeys(found[0] for entry in added if (found := _NAME.match(entry))))


async def declared_dependencies(git: Git, commit: Commit) -> Mapping[str, frozenset[str]]:
    """Return the entries of a commit's manifests that select dependencies, by the folder that they are installed to."""
    files = await files_at_commit(git, commit)
    found: dict[str, set[str]] = {}
    for path in sorted(files.paths):
        if path.rpartition("/")[2] in READ:
            folder = NODE_MODULES if path.endswith("package.json") else VENV
            found.setdefault(folder, set()).update(manifest_entries(files, path))
    for record in await dependency_hashes(git, commit):
        details, _, path = record.partition("\t")
        name = path.rpartition("/")[2]
        if name.endswith((".txt", ".in")):
            text = (await commits.file_contents(git, commit, path) or b"").decode(errors="replace")
            lines = (line.partition("#")[0].strip().rstrip("\\ ") for line in text.splitlines())
            found.setdefault(VENV, set()).update(line for line in lines if line)
        elif name not in READ:
            found.setdefault(_folder_of(name), set()).add(f"{name}\t{details.split()[2]} {path}")
    return {folder: frozenset(entries) for folder, entries in found.items()}


def _folder_of(name: str) -> str:
    for patterns, folder in ((NODE_PATTERNS, NODE_MODULES), (("go.*", "Cargo.*", "rust-toolchain*"), OTHER)):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return folder
    return VENV


def manifest_entries(files: ProjectFiles, path: str) -> Iterator[str]:
    """Yield what the parts of a manifest say that select dependencies."""
    if path.endswith("package.json"):
        manifest = files.json(path)
        yield from _flatten({key: manifest.get(key) for key in NODE_KEYS})
    elif path.endswith("setup.cfg"):
        options = files.ini(path).get("options", {})
        for key in ("install_requires", "python_requires"):
            yield from filter(None, options.get(key, "").split("\n"))
        for name in ("options.extras_require", "options.entry_points"):
            yield from _flatten(files.ini(path).get(name, {}))
    else:
        manifest = files.toml(path)
        project = as_table(manifest.get("project"))
        yield from _flatten({key: project.get(key) for key in PROJECT_KEYS})
        yield from _flatten(manifest.get("dependency-groups"))
        yield from (f"[build-system] {each}" for each in _flatten(as_table(manifest.get("build-system"))))
        tools = as_table(manifest.get("tool"))
        poetry = as_table(tools.get("poetry"))
        yield from _flatten(
            {key: poetry.get(key) for key in ("dependencies", "dev-dependencies", "group", "scripts", "source")}
        )
        yield from (f"[requires-plugins] {each}" for each in _flatten(poetry.get("requires-plugins")))
        yield from _flatten(tools.get("uv"))
        pdm = as_table(tools.get("pdm"))
        yield from _flatten({key: pdm.get(key) for key in ("dev-dependencies", "source", "resolution")})
        yield from (f"[plugins] {each}" for each in _flatten(pdm.get("plugins")))
        hatch = as_table(as_table(tools.get("hatch")).get("build"))
        targets = [as_table(each).get("hooks") for each in as_table(hatch.get("targets")).values()]
        yield from (f"[plugins] {each}" for each in _flatten([{"hooks": hatch.get("hooks")}, {"hooks": targets}]))


def _flatten(value: Any, name: str = "") -> Iterator[str]:
    """Yield one text for each value in a table or list; entries of tables begin with their key."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flatten(each, str(key))
    elif isinstance(value, list):
        yield from as_texts(value)
        yield from (text for each in value if isinstance(each, dict) for text in _flatten(each, name))
    elif value is not None:
        yield f"{name} {value}".strip()
