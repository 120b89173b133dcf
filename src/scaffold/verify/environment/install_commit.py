"""The commit from which the packages of unlanded work are installed: it has the work's manifests, and none of its code.

What installs a project runs code of it: `setup.py` and what that imports, build backends and hooks in the repository,
commands of a makefile. In an environment that its own code has made, the work would judge itself.
"""

import ast
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange, batch_contents, commit_tree, path_changes, tree_of
from scaffold.git.trees.merge import HELPER, REGULAR_MODES
from scaffold.git.trees.tree_file import private_index, write_blob
from scaffold.verify.environment.dependencies import selects_dependencies
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, files_at_commit, ini_sections

PROGRAMS = ("setup.py", ".npmrc", ".yarnrc.yml")
"""Manifests that are code, or settings that name programs which installers run."""
LIFECYCLE = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
"""The scripts of a package.json that an installation runs, in npm's order."""
HOOKS = ("pre_", "post_")
"""How the names of scripts begin that PDM runs by itself."""
MESSAGE = "The work's manifests among the files of its base\n"


async def install_commit(git: Git, base: Commit, work: Commit, *, folder: Path) -> Commit:
    """Return a commit with the paths of `work` and its manifests; all else is as in `base`, and empty if it is new.

    So packages are found where the work has them, and installers run no line of it. New Python files keep the texts
    that they assign, such as a version. No ref points to the commit. `folder` is for temporary files.
    """
    changes = [each for each in await path_changes(git, base, work) if not (each.kind == "D" or _is_data(each))]
    entries = {each.path: (each.mode, each.former_id) for each in changes if each.kind == "M"}
    new = [each for each in changes if each.kind != "M"]
    read = [each.object_id for each in new if each.path.endswith(".py") and each.mode in REGULAR_MODES]
    texts = dict(zip(read, map(_texts_of, await batch_contents(git, read)), strict=True))
    blobs = {text: await write_blob(git, text) for text in {b"", *texts.values()}}
    for each in new:
        blob = blobs[texts.get(each.object_id, b"")]
        entries[each.path] = ("0", blob) if each.is_gitlink else ("100644", blob)
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
    """Return the manifests of `work` that bring code into an environment, sorted; `programs` is the PATH of checks.

    That is code which an installation runs, a plugin of another program, or a program in the place of an existing one.
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
        programs_of_it = manifest.get("bin")
        one = isinstance(programs_of_it, str)
        yield from _existing(
            [str(manifest.get("name")).rpartition("/")[2]] if one else as_table(programs_of_it), programs
        )
    elif path.endswith("pyproject.toml"):
        manifest = files.toml(path)
        project, tools = as_table(manifest.get("project")), as_table(manifest.get("tool"))
        poetry, pdm = as_table(tools.get("poetry")), as_table(as_table(tools.get("pdm")).get("scripts"))
        yield from (f"{name} {text}" for name, text in pdm.items() if name.startswith(HOOKS))
        for plugins in (project.get("entry-points"), poetry.get("plugins")):
            yield from (f"{group} {name}" for group, names in as_table(plugins).items() for name in as_table(names))
        for named in (project.get("scripts"), project.get("gui-scripts"), poetry.get("scripts")):
            yield from _existing(as_table(named), programs)
    elif path.endswith("setup.cfg"):
        for group, text in ini_sections(files.text(path)).get("options.entry_points", {}).items():
            names = [line.partition("=")[0].strip() for line in text.splitlines() if "=" in line]
            is_program = group in {"console_scripts", "gui_scripts"}
            yield from (f"{group} {name}" for name in (_existing(names, programs) if is_program else names))


def _existing(names: Iterable[str], programs: str) -> Iterator[str]:
    return (name for name in names if shutil.which(name, path=programs))
