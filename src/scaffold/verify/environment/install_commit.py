"""The commit from which the packages of unlanded work are installed: it has the work's manifests, and none of its code.

What installs a project runs code of it: `setup.py` and what that imports, build backends and hooks in the repository,
commands of a makefile. In an environment that its own code has made, the work would judge itself.
"""

import ast
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import json

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange, batch_contents, commit_tree, path_changes, tree_of
from scaffold.git.trees.merge import HELPER, REGULAR_MODES
from scaffold.git.trees.tree_file import private_index, write_blob
from scaffold.host.folder_tree import walk
from scaffold.plan.text.bounded import read_ini
from scaffold.verify.environment.dependencies import NODE_MODULES, read_text, selects_dependencies
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, files_at_commit
from scaffold.verify.paths.check_inputs import STARTUP_MODULES

PROGRAMS = ("setup.py", ".npmrc", ".yarnrc.yml")
"""Manifests that are code, or settings that name programs which installers run."""
LIFECYCLE = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
"""The scripts of a package.json that an installation runs, in npm's order."""
SCRIPTS = ("console_scripts", "gui_scripts")
"""The groups of entry points that are programs of their own."""
HOOKS = ("pre_", "post_")
"""How the names of scripts begin that PDM runs by itself."""
_IMPORTS = re.compile(r"^import[ \t]", re.MULTILINE)
"""The lines of a `.pth` file that Python executes."""
_SETUPTOOLS = re.compile(r"^Generator: (setuptools|bdist_wheel)\b", re.MULTILINE)
MESSAGE = "The work's manifests among the files of its base\n"


async def install_commit(git: Git, base: Commit, work: Commit, *, folder: Path) -> Commit:
    """Return a commit with the paths of `work` and its manifests; all else is as in `base`, and empty if it is new.

    So packages are found where the work has them, and installers run no line of it. New Python files keep the texts
    that they assign, such as a version; a package.json has the scripts of the base, since one starts others. No ref
    points to the commit. `folder` is for temporary files.
    """
    changes = [each for each in await path_changes(git, base, work) if each.kind != "D"]
    entries = {each.path: (each.mode, each.former_id) for each in changes if each.kind == "M" and not _is_data(each)}
    new = [each for each in changes if each.kind != "M" and not _is_data(each)]
    python = [each for each in new if each.path.endswith(".py") and each.mode in REGULAR_MODES]
    read = await batch_contents(git, [each.object_id for each in python])
    texts = {each.path: _texts_of(source) for each, source in zip(python, read, strict=True)}
    before, now = await files_at_commit(git, base), await files_at_commit(git, work)
    for path in (each.path for each in changes if _is_data(each) and each.path.endswith("package.json")):
        if manifest := now.json(path):
            texts[path] = json.encode({**manifest, "scripts": before.json(path).get("scripts", {})})
    blobs = {text: await write_blob(git, text) for text in {b"", *texts.values()}}
    for path in {*texts, *(each.path for each in new)}:
        entries[path] = ("100644", blobs[texts.get(path, b"")])
    entries |= {each.path: ("0", blobs[b""]) for each in new if each.is_gitlink}
    async with private_index(git, folder) as index:
        tree = await index.tree_with_objects(await tree_of(git, work), entries)
    return await commit_tree(git, tree, parents=[base], message=MESSAGE, author=HELPER, committer=HELPER)


def _is_data(change: PathChange) -> bool:
    return selects_dependencies(change.path) and change.mode in REGULAR_MODES


def _texts_of(source: bytes | None) -> bytes:
    """Return the docstring of a Python file, and what assigns a text to a name; nothing else of it."""
    try:
        tree = ast.parse(source or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return b""
    doc = ast.get_docstring(tree, clean=False)
    named = [
        f"{target.id} = {node.value.value!r}"
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    return "".join(f"{line}\n" for line in (*([repr(doc)] if doc else ()), *named)).encode(errors="replace")


async def code_in_manifests(git: Git, base: Commit, work: Commit, *, programs: str) -> tuple[str, ...]:
    """Return the manifests of `work` with new code that an installation runs, sorted.

    That is also a program of Node in the place of one on `programs`, the PATH of checks.
    """
    changed = [each.path for each in await path_changes(git, base, work) if _is_data(each)]
    before, now = await files_at_commit(git, base), await files_at_commit(git, work)
    return tuple(
        path
        for path in sorted(changed)
        if path.rpartition("/")[2] in PROGRAMS
        or {*_code_entries(now, path, programs)} - {*_code_entries(before, path, programs)}
    )


def _code_entries(files: ProjectFiles, path: str, programs: str) -> Iterator[str]:
    if path.endswith("package.json"):
        manifest = files.json(path)
        scripts = as_table(manifest.get("scripts"))
        yield from (f"{name} {scripts[name]}" for name in LIFECYCLE if name in scripts)
        named = manifest.get("bin")
        own = [str(manifest.get("name")).rpartition("/")[2]] if isinstance(named, str) else [*as_table(named)]
        yield from (name for name in own if shutil.which(name, path=programs))
    elif path.endswith("pyproject.toml"):
        scripts = as_table(as_table(as_table(files.toml(path).get("tool")).get("pdm")).get("scripts"))
        # One may start others.
        hooked = any(name.startswith(HOOKS) for name in scripts)
        yield from (f"{name} {text}" for name, text in scripts.items() if hooked)


def code_of_packages(environment: CheckEnvironment, before: CheckEnvironment, *, programs: str) -> tuple[str, ...]:
    """Return what the repository's own Python packages bring to other programs, unless they did `before`; sorted.

    That is what a Python runs when it starts, plugins, what takes the place of other distributions and their modules,
    and programs with names on `programs`, the PATH of checks. Build backends put any file there that the manifest
    names, under any name.
    """
    others = _names_of_others(environment) | _names_of_others(before)
    theirs = {name for name, own in _node_packages(before) if not own}
    taken = {name for name, own in _node_packages(environment) if own and name in theirs}
    return tuple(sorted({*_brought(environment, programs, others)} - {*_brought(before, programs, others)} | taken))


def _node_packages(environment: CheckEnvironment) -> Iterator[tuple[str, bool]]:
    """Yield the name of each package, also of one for another package alone, and whether it is the repository's own."""
    for top in (each.source for each in environment.copies if each.target.endswith(NODE_MODULES)):
        for folder, folders, others in walk(top):
            scope = f"{name}/" if (name := posixpath.basename(folder)).startswith("@") else ""
            for path in (Path(folder, each) for each in (*folders, *others) if scope or name == NODE_MODULES):
                # Others are linked within such folders, from a store.
                own = path.is_symlink() and NODE_MODULES not in path.readlink().parts
                yield f"{scope}{path.name}", own


def _brought(environment: CheckEnvironment, programs: str, others: frozenset[str]) -> Iterator[str]:
    for top, info in (found[:2] for found in _distributions(environment) if found[2]):
        try:
            groups = read_ini(read_text(info / "entry_points.txt")).items()
        except ValueError:  # Python reads them in a way of its own
            yield f"{info.name}/entry_points.txt"
            continue
        yield from (f"{group} {name}" for group, names in groups if group not in SCRIPTS for name in names)
        # Setuptools has hooks for its own editable installations; other backends put a file with any text there.
        hooks = bool(_SETUPTOOLS.search(read_text(info / "WHEEL")))
        paths = (info.name, *_installed_paths(info, top))
        yield from (each for each in paths if _name(each) in others or _takes_effect(top, each, programs, hooks=hooks))


def _distributions(environment: CheckEnvironment) -> Iterator[tuple[Path, Path, bool]]:
    """Yield each virtual environment with a distribution's record in it, and whether that is the repository's own."""
    for top in map(Path, (*(each.source for each in environment.copies), *environment.shown)):
        for info in top.glob("lib/python*/site-packages/*.dist-info"):
            yield top, info, '"file://' in read_text(info / "direct_url.json").replace(" ", "")


def _names_of_others(environment: CheckEnvironment) -> frozenset[str]:
    found = ((info.name, *_installed_paths(info, top)) for top, info, own in _distributions(environment) if not own)
    return frozenset(_name(each) for paths in found for each in paths)


def _name(path: str) -> str:
    """Return a distribution without its version, and a module as it is imported: a folder comes before `six.py`."""
    folder, _, name = path.removesuffix("/__init__.py").rpartition("/")
    distribution = name.partition("-")[0].replace(".", "_") if name.endswith(".dist-info") else ""
    return distribution.casefold() or f"{folder}/{name.partition('.')[0] if '/site-packages' in folder else name}"


def _installed_paths(info: Path, top: Path) -> tuple[str, ...]:
    packages = info.parent.relative_to(top).as_posix()
    rows = (line.rsplit(",", 2)[0].strip('"') for line in read_text(info / "RECORD").splitlines())
    return tuple(
        posixpath.normpath(posixpath.join(packages, row)) if ".." in row else f"{packages}/{row}" for row in rows
    )


def _takes_effect(top: Path, path: str, programs: str, *, hooks: bool) -> bool:
    if path.startswith("bin/"):
        return shutil.which(path.removeprefix("bin/"), path=programs) is not None
    name = path.partition("/site-packages/")[2].partition("/")[0]
    if not name:
        return not path.startswith(("share/", "etc/", "include/")) and not path.endswith(".dist-info")
    starts = name.endswith(".pth") and not (hooks and name.startswith("__editable__"))
    return name.partition(".")[0] in STARTUP_MODULES or (starts and _IMPORTS.search(read_text(top / path)) is not None)
