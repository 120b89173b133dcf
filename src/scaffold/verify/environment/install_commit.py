"""The commit from which the packages of unlanded work are installed: it has the work's manifests, and none of its code.

What installs a project runs code of it: `setup.py` and what that imports, build backends and hooks in the repository,
commands of a makefile. In an environment that its own code has made, the work would judge itself.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange, commit_tree, path_changes, tree_of
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

    So packages are found where the work has them, and installers run no line of it. No ref points to the commit.
    `folder` is for temporary files.
    """
    empty = await write_blob(git, b"")
    changes = await path_changes(git, base, work)
    entries = {each.path: _without_code(each, empty) for each in changes if not (each.kind == "D" or _is_data(each))}
    async with private_index(git, folder) as index:
        tree = await index.tree_with_objects(await tree_of(git, work), entries)
    return await commit_tree(git, tree, parents=[base], message=MESSAGE, author=HELPER, committer=HELPER)


def _is_data(change: PathChange) -> bool:
    return selects_dependencies(change.path) and change.mode in REGULAR_MODES


def _without_code(change: PathChange, empty: str) -> tuple[str, str]:
    if change.kind == "M":
        return change.mode, change.former_id
    return ("0", "0" * len(empty)) if change.is_gitlink else ("100644", empty)


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
