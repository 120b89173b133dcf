"""What a sandbox of agents' commands confines: the files that they see and write.

That includes files that git obeys or runs because its configuration names them: `include.path = ../.gitconfig` and
`filter.NAME.clean = tools/clean.sh` are common, and the user's next `git status` uses both outside of any sandbox.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import structs

from scaffold.core.errors import GitError
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.checkouts.worktree_metadata import find_checkout, gitdir_target, required_folders
from scaffold.git.client.command_line import Git
from scaffold.git.client.disabled_programs import ConfigEntry, expanded, included_files
from scaffold.git.common_dir import common_dir
from scaffold.host.sandbox.confinement import GIBIBYTE, Confinement, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.level import DetectedLevel
from scaffold.policy.command_sandbox import SandboxInputs, fold_into_folders, known_secrets, own_programs, usable_level
from scaffold.policy.path.protected_files import EDITOR_FILES
from scaffold.policy.secret.command_environment import command_environment
from scaffold.policy.secret.git_settings import shown_git_settings
from scaffold.policy.secret.home import folder_entries, view_of_home
from scaffold.policy.secret.sources import credential_paths
from scaffold.policy.secret.unreadable_files import SECRET_FILES, secret_entry, secret_scan
from scaffold.policy.shell.reading.readonly_git import any_program_setting
from scaffold.policy.shell.wrappers import module_files, runs_script
from scaffold.policy.trust_decision import ACTIVE_FILES, COMMAND_FOLDER, ROLE_FOLDER, SCRIPT_FOLDER, SKILL_FOLDERS

READ_ONLY_PATHS = (
    *(".git", ".scaffold", ".husky", ".claude/plugins"),
    *(SCRIPT_FOLDER, *SKILL_FOLDERS, ROLE_FOLDER, COMMAND_FOLDER),
    *ACTIVE_FILES,
)
"""Files that git, Scaffold and agents run or obey, relative to the workspace; commands cannot change or create them."""

LOGIN_FILES = (
    *(".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".config", ".gitconfig", ".inputrc", ".npmrc"),
    *(".pam_environment", ".profile", ".ssh", ".tmux.conf", ".vimrc", ".xprofile", ".zlogin", ".zlogout"),
    *(".zprofile", ".zshenv", ".zshrc", "bin", "Library/LaunchAgents"),
)
"""Paths in a home that the next shell, login or tool runs or obeys; protected even if missing."""

SYSTEM_SECRETS = tuple(Path(entry.rstrip("*")) for entry in SECRET_FILES if entry.startswith(("/etc", "/run", "/var")))
"""Absolute paths of system secrets; /proc and /dev are left out because a sandbox has its own."""
PATHS_AT_ONCE = 500
HOOKS_PATH = "hookspath"
HOOKS = "core.hookspath"
GIT_COPY = "gitconfig"
"""The copy of the user's git settings for commands, beside their TMPDIR."""
ALIAS = "alias."
MODULE_FLAG, CODE_FLAG = "-m", "-c"
_PART = re.compile(r"[^\s'\"`$(){};|&<>=!]+")
"""A part of a command line that may be a path; `$(git rev-parse --show-toplevel)/x` ends with `/x`."""


def workspace_profile(inputs: SandboxInputs, environ: Mapping[str, str], secrets: Sequence[Path] = ()) -> Confinement:
    """Return the profile of commands that work in `inputs.root`: they may write there and read all but secrets.

    They reach no host but this one. If the home is inside the workspace, its programs and settings are protected.
    `environ` is the user's environment, which names tools and credentials; `secrets` are those found in the checkouts.
    """
    root, home, temporary = inputs.root.resolve(), inputs.home.resolve(), inputs.temporary.resolve()
    protected = (
        *(root / name for name in READ_ONLY_PATHS),
        *inputs.protected,
        # In an internal checkout they may be part of the work; they land only if they were approved.
        *(root / name for name in EDITOR_FILES if not inputs.disposable),
        # Git runs what is in that folder, outside the sandbox, with the user's next command.
        *_hooks_folder(root),
        *own_programs(root),
        # Elsewhere in the home nothing can be written anyway.
        *(_home_settings(home, temporary) if home.is_relative_to(root) else ()),
    )
    checkouts = tuple(path.resolve() for path in inputs.searched)
    variables = command_environment(environ)
    unseen, seen = view_of_home(home, root, variables, checkouts=checkouts, opened=inputs.opened)
    closed = (*secrets, *credential_paths(environ), *SYSTEM_SECRETS, *(path.resolve() for path in inputs.private))
    opened = (path for path in seen if not any(map(path.is_relative_to, closed)))
    # a link that an agent planted must not show a key; a home that is a checkout, too, stays hidden
    # An agent may have written `.git` in an internal checkout.
    trusted = (path for path in checkouts if path != root or not inputs.disposable)
    needed = (*checkouts, *(folder for checkout in trusted for folder in required_folders(checkout)))
    named = (*(each.resolve() for each in inputs.shown), *needed)
    shown = (path for path in named if not secret_entry(str(path)) and not home.is_relative_to(path))
    return Confinement(
        writable=(root,),
        temporary=temporary,
        protected=tuple(dict.fromkeys(path for path in protected if not inputs.disposable or os.path.lexists(path))),
        hidden=tuple(dict.fromkeys(path for path in (*unseen, *closed) if path not in {root, temporary})),
        readable=tuple(dict.fromkeys((*shown, *opened))),
    )


async def build_sandbox_spec(
    settings: SandboxSettings, inputs: SandboxInputs, environ: Mapping[str, str], *, cache: Path
) -> SandboxSpec | None:
    """Return the sandbox for commands in `inputs.root`; None without one. Raise TrustError if one is required.

    The detected level of this machine is cached in the file `cache`.
    """
    detected = await usable_level(settings, inputs.root, environ, cache=cache)
    return None if detected is None else await build_spec(settings, inputs, environ, detected)


async def build_spec(
    settings: SandboxSettings, inputs: SandboxInputs, environ: Mapping[str, str], detected: DetectedLevel
) -> SandboxSpec:
    """Return the sandbox for commands in `inputs.root`, at the level that was detected."""
    # Before the search for secrets: one that appears meanwhile is a new one.
    known = None if inputs.disposable else known_secrets(inputs.root)
    secrets = [path for top in inputs.searched for path in await untracked_secrets(top, environ)]
    entries = await _git_entries(inputs.root, environ, inputs.git)
    files, logins, copy = await asyncio.to_thread(_shown_git_settings, entries, inputs)
    opened = (*(inputs.home / expanded(path) for path in settings.read), *files)
    inputs = structs.replace(inputs, opened=opened, shown=(*inputs.shown, *copy.values()))
    profile = await asyncio.to_thread(workspace_profile, inputs, environ, (*secrets, *logins))
    zone = msgspec.structs.replace(
        profile,
        network=settings.network,
        hosts=settings.hosts,
        limits=ResourceLimits(memory_bytes=int(settings.memory_gb * GIBIBYTE)),
    )
    if not inputs.disposable:
        obeyed = _paths_inside(zone.writable[0], entries)
        zone = msgspec.structs.replace(zone, protected=tuple(dict.fromkeys((*zone.protected, *obeyed))))
    if inputs.disposable and detected.level == "landlock":
        # Landlock cannot exclude a path from a writable folder: commands could create nothing next to it
        zone = msgspec.structs.replace(zone, protected=())
    return SandboxSpec(detected.level, zone, program=detected.program, variables=copy, known=known)


async def untracked_secrets(top: Path, environ: Mapping[str, str]) -> Sequence[Path]:
    """Return the files and folders at any depth of a checkout that are named like secrets and not tracked by git.

    `top` is the checkout, or a folder outside any repository. Files that git tracks are not the user's secrets.
    """
    found = secret_scan(top).paths()
    tracked: set[str] = set()
    for start in range(0, len(found), PATHS_AT_ONCE):
        names = [f":(literal){path.relative_to(top).as_posix()}" for path in found[start : start + PATHS_AT_ONCE]]
        with contextlib.suppress(GitError):  # not a repository: nothing is tracked
            tracked.update((await Git(top, environ=environ)("ls-files", "-z", "--", *names)).records)
    folders = {parent.as_posix() for path in tracked for parent in Path(path).parents}
    return fold_into_folders([path for path in found if path.relative_to(top).as_posix() not in tracked | folders], top)


def _home_settings(home: Path, temporary: Path) -> Iterator[Path]:
    """Yield `LOGIN_FILES` and all dot files of a home; instead of a folder around `temporary`, its other entries."""
    yield from (home / name for name in LOGIN_FILES)
    for entry in folder_entries(home):
        if entry.name.startswith("."):
            yield from _paths_beside(home / entry.name, temporary)


def _paths_beside(path: Path, excluded: Path) -> Iterator[Path]:
    """Yield `path`, or if it contains `excluded`, everything in it except `excluded` and its parents."""
    if not excluded.is_relative_to(path):
        yield path
    elif excluded != path:
        for entry in folder_entries(path):
            yield from _paths_beside(path / entry.name, excluded)


def _hooks_folder(root: Path) -> Iterator[Path]:
    # Git runs what `core.hooksPath` names: it is protected if it is inside the workspace.
    try:
        registration = gitdir_target(root)
        text = ((common_dir(registration) if registration else root / ".git") / "config").read_bytes()
    except OSError:
        return
    for line in text.decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        folder = value.strip().strip('"')
        if name.strip().casefold() == HOOKS_PATH and not folder.startswith("~"):
            path = Path(os.path.normpath(root / folder))
            if path.is_relative_to(root) and path != root:
                yield path


async def git_config_files(root: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files and folders in the workspace that git's settings name, at every level from system to worktree.

    They are configuration files, programs, and scripts and modules of interpreters, existing or not, the folder of
    hooks, and the other existing files that commands name.
    """
    return tuple(_paths_inside(root, await _git_entries(root, environ)))


def _shown_git_settings(
    entries: Sequence[ConfigEntry], inputs: SandboxInputs
) -> tuple[Sequence[Path], Sequence[Path], Mapping[str, Path]]:
    # Of settings that cannot be listed nobody knows whether there is a login in them.
    if not entries:
        return (), (), {}
    folders = (inputs.root, *inputs.shown, *(path for top in inputs.searched for path in required_folders(top)))
    # A home may be a checkout, too: its settings are the user's nevertheless, unlike those of its repository.
    repository = [path for path in folders if not inputs.home.is_relative_to(path)]
    own = [
        entry
        for entry in entries
        if entry.file
        and entry.file.is_relative_to(inputs.home)
        and ".git" not in entry.file.parts
        and not any(map(entry.file.is_relative_to, repository))
    ]
    return shown_git_settings(own, inputs.home, inputs.temporary.parent / GIT_COPY)


async def _git_entries(root: Path, environ: Mapping[str, str], git: Git | None = None) -> tuple[ConfigEntry, ...]:
    try:
        return (await (git or Git(find_checkout(root) or root, environ=environ)).configuration()).entries
    except GitError:  # git cannot read this repository, so the user's git obeys none of it
        return ()


def _paths_inside(root: Path, entries: tuple[ConfigEntry, ...]) -> Iterator[Path]:
    """Yield the paths in `root` that git obeys or runs, by its settings in the checkout around it."""
    top = find_checkout(root) or root
    files = (each.file for each in entries if each.file)
    named = (*files, *included_files(entries), *(path for each in entries for path in _named_paths(each, top)))
    paths = (Path(os.path.normpath(path)) for path in named)
    return (path for path in dict.fromkeys(paths) if path.is_relative_to(root) and path != root)


def _named_paths(entry: ConfigEntry, top: Path) -> Iterator[Path]:
    name = entry.name.casefold()
    if name == HOOKS:
        yield top / expanded(entry.value)
    elif any_program_setting([name]) or (name.startswith(ALIAS) and entry.value.startswith("!")):
        parts = _PART.findall(entry.value)
        for part in parts:
            yield from filter(_is_file, (top / expanded(part), top / part.lstrip("/")))
        yield from (top / expanded(each) for each in _program_paths(parts))


def _program_paths(parts: Sequence[str]) -> Iterator[str]:
    # A command could create a missing program, script or module.
    program, *rest = parts or ("",)
    if "/" in program:
        yield program
    # after -c comes code, in which most words with a slash are no programs
    if not runs_script(program.rpartition("/")[2]) or CODE_FLAG in rest:
        return
    for flag, part in pairwise(("", *rest)):
        if flag == MODULE_FLAG:
            # Python looks for modules in the folder where git starts it, the top, before it looks anywhere else.
            yield from module_files(part)
            return
        if "/" in part and not part.startswith("-"):
            yield part
            return


def _is_file(path: Path) -> bool:
    # A word that is too long for a path is no error.
    try:
        return path.is_file()
    except OSError:
        return False
