"""Files that git ignores and that a build creates inside packages: `_version.py`, catalogs, compiled modules.

A worktree lacks them, and without them the package cannot be imported. They are copied like dependencies, as long as
none of their possible sources changed.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.ignored_files import ignored_files
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.verify.environment.dependencies import hash_lines, selects_dependencies
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table
from scaffold.verify.paths.conventions import PROSE_SUFFIXES, is_test

MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py")
COMPILED = ("*.so", "*.pyd", "*.mo")
"""Patterns of files that compilers of modules and message catalogs write next to sources."""
EXTENSION_SUFFIXES = frozenset({".so", ".pyd"})
CACHES = frozenset({"__pycache__", "build", "dist"})
NOT_OWN = CACHES | {"site-packages", "node_modules"}
PYTHON_ENDS = (".py", "/__init__.py")
NODE_ENDS = ("", ".js", ".cjs", ".mjs", ".json", ".ts", "/index.js")
VERSION_SETTINGS: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = (
    (("setuptools_scm",), ("version_file", "write_to")),
    (("setuptools-scm",), ("version_file", "write_to")),
    (("flit_scm",), ("version_file", "write_to")),
    (("hatch", "build", "hooks", "vcs"), ("version-file",)),
    (("pdm", "version"), ("write_to",)),
    (("versioningit", "write"), ("file",)),
)
"""Tables below `[tool]`, with the keys that name a file to which a build writes the version."""


_MODULE = re.compile(r"(?:No module named|cannot import name) '?([\w.]+)'?")
_FILE = re.compile(r"Cannot find module '(?:[^']*/)?([^/']+/[^/']+)'")
"""Node's message about a missing file that is required by its path; the last two parts identify it."""


class GeneratedFiles(Struct, frozen=True, kw_only=True):
    """Files that a build made, relative to the top, sorted."""

    versions: tuple[str, ...] = ()
    """Made from tags and commits alone."""
    built: tuple[str, ...] = ()
    """Made from sources, and outdated once these change."""


def version_files(project: ProjectFiles) -> frozenset[str]:
    """Return the Python files to which builds write the version, by the project's manifests."""
    folders = {str(PurePosixPath(path).parent) for path in project.paths if PurePosixPath(path).name in MANIFESTS}
    found = set[str]()
    for folder in (folder for folder in folders if folder.count("/") <= 1):
        home = "" if folder == "." else folder
        for name in _declared_version_files(project.at(home)):
            path = PurePosixPath(home, name)
            if path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts:
                found.add(str(path))
    return frozenset(found)


async def made_by_setup(
    git: Git, tracked: Collection[str], versions: Collection[str], targets: Sequence[str]
) -> GeneratedFiles:
    """Return the files that the set-up created inside packages of a new checkout, outside the installed `targets`."""
    left_out = (f":(top,exclude,literal){target}" for target in targets)
    listed = await git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", ":/", *left_out)
    # A link would lead whoever copies or compares it out of the checkout.
    made = [path for path in listed.records if ContainedPath(git.cwd, path).is_file()]
    return _inside_packages(made, tracked, versions)


async def left_in_checkout(
    git: Git, tracked: Collection[str], versions: Collection[str], targets: Sequence[str]
) -> GeneratedFiles:
    """Return the version files and compiled files that builds left in the user's checkout.

    Other files may be the user's own, such as local settings.
    """
    safe = [name for name in sorted(versions) if "version" in PurePosixPath(name).name and not secret_entry(name)]
    patterns = (*COMPILED, *(f"/{name}" for name in safe))
    listed = await ignored_files(git, patterns, skipped=targets)
    return _inside_packages(listed, tracked, versions)


async def ignored_module(git: Git, output: str) -> str | None:
    """Return the ignored file of the user's checkout that, by the output, cannot be imported; None without any."""
    modules = [name.replace(".", "/") for name in _MODULE.findall(output)]
    wanted = [*((name, PYTHON_ENDS) for name in modules), *((name, NODE_ENDS) for name in _FILE.findall(output))]
    for name, ends in dict.fromkeys(wanted):
        listed = await git(
            *("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"),
            *(f":(top,glob)**/{name.lstrip('./')}{end}" for end in ends),
        )
        inside = [each for each in listed.records if NOT_OWN.isdisjoint(each.split("/"))]
        if inside:
            return min(inside, key=len)
    return None


async def build_inputs(git: Git, commit: Commit) -> str:
    """Return a hash of all possible sources of built files in a commit."""
    listed = await git("ls-tree", "-r", "-z", commit)
    paths = [record.partition("\t")[2] for record in listed.records]
    packages = frozenset(path.rpartition("/")[0] for path in paths if path.endswith("/__init__.py"))
    return hash_lines(record for record in listed.records if may_be_input(record.partition("\t")[2], packages))


def may_be_input(path: str, packages: Collection[str]) -> bool:
    """Return True if a build may create others from this file.

    False for documentation, hidden files, manifests, tests and modules of packages.
    """
    where = PurePosixPath(path)
    if where.suffix.removeprefix(".") in PROSE_SUFFIXES or any(part.startswith(".") for part in where.parts):
        return False
    if where.name == "setup.py" or not selects_dependencies(path):
        # The compiled form of a module is not copied, because it would hide changes of the module.
        return where.suffix != ".py" or not (is_test(path) or str(where.parent) in packages)
    return False


def _inside_packages(paths: Iterable[str], tracked: Collection[str], versions: Collection[str]) -> GeneratedFiles:
    homes = {str(PurePosixPath(path).parent) for path in tracked if path.endswith(".py")}
    found = sorted(path for path in paths if _belongs_to_package(PurePosixPath(path), homes, tracked))
    return GeneratedFiles(
        versions=tuple(path for path in found if path in versions),
        built=tuple(path for path in found if path not in versions),
    )


def _belongs_to_package(path: PurePosixPath, homes: Collection[str], tracked: Collection[str]) -> bool:
    """Return True if a file belongs to a package, is not a cache, and hides no module of the repository."""
    folders = path.parts[:-1]
    if path.suffix in {".pyc", ".pyo"} or not CACHES.isdisjoint(path.parts):
        return False
    if any(part.startswith(".") or part.endswith(".egg-info") for part in path.parts):
        return False
    module = path.parent / f"{path.name.partition('.')[0]}.py"
    # Python prefers the compiled module: changes of its source would have no effect.
    if path.suffix in EXTENSION_SUFFIXES and str(module) in tracked:
        return False
    if not folders:
        return "." in homes and path.suffix in {".py", *EXTENSION_SUFFIXES}
    return any(str(parent) in homes for parent in path.parents[:-1])


def _declared_version_files(project: ProjectFiles) -> Iterator[str]:
    tools = as_table(project.toml("pyproject.toml").get("tool"))
    for table, keys in VERSION_SETTINGS:
        settings: Mapping[str, Any] = tools
        for name in table:
            settings = as_table(settings.get(name))
        yield from (value for key in keys if isinstance(value := settings.get(key), str))
    for name in ("setuptools_scm", "tool:setuptools_scm"):
        section = project.ini("setup.cfg").get(name, {})
        yield from (section[key] for key in ("version_file", "write_to") if key in section)
    yield from _given_to_setup(project.text("setup.py"))


def _given_to_setup(text: str) -> Iterator[str]:
    """Yield the file that `setup(use_scm_version={"write_to": FILE})` names."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "use_scm_version" and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in {"version_file", "write_to"}:
                    yield from (
                        each.value for each in [value] if isinstance(each, ast.Constant) and isinstance(each.value, str)
                    )
