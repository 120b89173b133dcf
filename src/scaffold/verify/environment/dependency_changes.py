"""Which dependencies a commit declares, and which the work added to them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.environment.dependencies import NODE_MODULES, VENV, dependency_hashes, selects_dependencies
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, as_texts, files_at_commit, ini_section

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
OTHER_PATTERNS = ("go.*", "Cargo.*", "rust-toolchain*")
OTHER = "other"
NODE_KEYS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "workspaces")
PROJECT_KEYS = ("dependencies", "optional-dependencies", "requires-python", "scripts", "gui-scripts", "entry-points")
SETUP_KEYS = ("install_requires", "python_requires")

_NAME = re.compile(r"^[A-Za-z0-9@][\w.@/-]*")


class DependencyChange(Struct, frozen=True, kw_only=True):
    """How the dependencies of a commit differ from those of another."""

    folders: frozenset[str]
    """The folders of installed packages that no longer fit: `.venv`, `node_modules`; `other` for other languages."""
    added: tuple[str, ...]
    """New entries, such as `requests>=2` or the name of a lock file, sorted."""


async def dependency_change(git: Git, changed: Iterable[str], before: Commit, now: Commit) -> DependencyChange | None:
    """Return how the declared dependencies changed with the `changed` paths; None if they did not."""
    if not any(map(selects_dependencies, changed)):
        return None
    old, new = await _declared_dependencies(git, before), await _declared_dependencies(git, now)
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


async def _declared_dependencies(git: Git, commit: Commit) -> Mapping[str, frozenset[str]]:
    files = await files_at_commit(git, commit)
    found: dict[str, set[str]] = {}
    for path in sorted(files.paths):
        if path.rpartition("/")[2] in READ:
            folder = NODE_MODULES if path.endswith("package.json") else VENV
            found.setdefault(folder, set()).update(_manifest_entries(files, path))
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
    for patterns, folder in ((NODE_PATTERNS, NODE_MODULES), (OTHER_PATTERNS, OTHER)):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return folder
    return VENV


def _manifest_entries(files: ProjectFiles, path: str) -> Iterator[str]:
    """Yield the entries of a manifest that select what is installed; those of a tool's own settings do not."""
    if path.endswith("package.json"):
        manifest = files.json(path)
        yield from _flatten({key: manifest.get(key) for key in NODE_KEYS})
    elif path.endswith("setup.cfg"):
        options = ini_section(files.text(path), "options") or {}
        yield from (line for key in SETUP_KEYS for line in options.get(key, "").split("\n") if line)
        for name in ("options.extras_require", "options.entry_points"):
            yield from _flatten(dict(ini_section(files.text(path), name) or {}))
    else:
        manifest = files.toml(path)
        project = as_table(manifest.get("project"))
        yield from _flatten({key: project.get(key) for key in PROJECT_KEYS})
        yield from _flatten(manifest.get("dependency-groups"))
        yield from _flatten(as_table(manifest.get("build-system")).get("requires"))
        tools = as_table(manifest.get("tool"))
        poetry = as_table(tools.get("poetry"))
        yield from _flatten({key: poetry.get(key) for key in ("dependencies", "dev-dependencies", "group", "scripts")})
        yield from _flatten(as_table(tools.get("uv")).get("sources"))
        yield from _flatten(as_table(tools.get("pdm")).get("dev-dependencies"))


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
