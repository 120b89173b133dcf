"""Fit the environment of the base to a later commit, whose packages may be somewhere else."""

import os
from collections.abc import Mapping, Sequence

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange
from scaffold.verify.environment.check_env import PYTHON_PATH, TOP_PLACEHOLDER
from scaffold.verify.environment.generated_files import build_inputs
from scaffold.verify.environment.import_proof import python_modules, with_sources_first


async def environment_of_commit(
    environment: CheckEnvironment, git: Git, changes: Sequence[PathChange], *, made_at: Commit, commit: Commit
) -> CheckEnvironment:
    """Return the environment for a later commit, given its changes since the environment was made.

    Generated files move with their packages, and built ones are left out if anything changed that they may be made
    from. Packages that moved to another source folder are imported from there.
    """
    built = environment.built and any(change.kind == "M" for change in changes)
    # Sources stay where they are unless a file comes or goes.
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
    renames, left = await commits.renames(git, made_at, commit), frozenset(map(_folder_of, now))
    folders = {_folder_of(old): _folder_of(new) for old, new in renames.items() if _folder_of(old) not in left}
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
    # As in the proof at the base: names at the top could hide others, so it comes first only if it has to.
    roots = {root for root in now.values() if root or TOP_PLACEHOLDER in first}
    # The commit decides, so results are told apart by it already.
    return (
        structs.replace(with_sources_first(environment, roots), fingerprint=environment.fingerprint)
        if roots
        else environment
    )


def _move_files(files: Sequence[CopiedFile], folders: Mapping[str, str]) -> tuple[CopiedFile, ...]:
    """Return the files at their places after all sources of some folders were moved to others."""
    return tuple(structs.replace(file, target=_in_folder(file.target, folders)) for file in files)


def _in_folder(path: str, folders: Mapping[str, str]) -> str:
    folder, _, name = path.rpartition("/")
    return "/".join(filter(None, (folders.get(folder, folder), name)))


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]
