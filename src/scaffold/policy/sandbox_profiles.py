"""Sandbox profiles: which files and hosts an agent's commands may reach. The sandbox enforces them."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.git.worktree_metadata import common_dir, gitdir_target
from scaffold.host.sandbox.confinement import Confinement
from scaffold.policy.secret.files import SECRET_FILES, secret_entry
from scaffold.policy.trust import ACTIVE_FILES

READ_ONLY_PATHS = (".git", ".scaffold", ".husky", ".claude/hooks", ".claude/plugins", *ACTIVE_FILES)
"""Files that git, Scaffold and agents run or obey, relative to the workspace; commands cannot change or create them."""

LOGIN_FILES = (
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "bin",
    "Library/LaunchAgents",
)
"""Paths in a home that the next shell or login runs; protected even if missing."""

CONTROL_SOCKETS = (
    ".docker/run",
    ".docker/desktop",
    ".colima",
    ".lima",
    ".orbstack",
    ".rd",
    ".1password",
    ".bitwarden-ssh-agent.sock",
    ".emacs.d/server",
    ".local/share/keyrings",
    "snap/docker",
)
"""Sockets in a home whose servers execute requests outside any sandbox."""

BROWSER_PROFILES = (
    ".config/chromium",
    ".config/bravesoftware",
    ".config/microsoft-edge",
    ".thunderbird",
    "snap/firefox",
    "library/application support/google/chrome",
    "library/application support/firefox",
)

SYSTEM_SECRETS = tuple(Path(entry.rstrip("*")) for entry in SECRET_FILES if entry.startswith(("/etc", "/run", "/var")))
"""Absolute paths of system secrets; /proc and /dev are left out because a sandbox has its own."""
HOOKS_PATH = "hookspath"


class SandboxInputs(Struct, frozen=True, kw_only=True):
    """The folders a sandbox profile is built from."""

    root: Path
    """The workspace, in which commands work."""
    home: Path
    temporary: Path
    """The commands' TMPDIR; need not exist."""
    private: Sequence[Path] = ()
    """Scaffold's own folders, hidden from commands: logins, conversations, state, other agents' work."""
    shown: Sequence[Path] = ()
    """Paths inside `private` or a system temporary folder that commands may read."""
    tracked: Collection[str] = ()
    """Names at the top of `root` that git tracks and that are therefore no secrets."""
    disposable: bool = False
    """Whether `root` is an internal checkout from which nothing is used without a check: missing protected paths are
    not protected there, so that commands can create them."""


def workspace_profile(inputs: SandboxInputs) -> Confinement:
    """Return the profile of commands that work in `inputs.root`: they may write there and read all but secrets.

    They reach no host but this one. Files at the top of the workspace with names of secrets are hidden unless git
    tracks them. If the home is inside the workspace, its programs and settings are protected.
    """
    root, home, temporary = inputs.root.resolve(), inputs.home.resolve(), inputs.temporary.resolve()
    protected = (
        *(root / name for name in READ_ONLY_PATHS),
        *_hooks(root),
        *(_home_settings(home, temporary) if home.is_relative_to(root) else ()),
    )
    hidden = (
        *top_level_secrets(root, inputs.tracked),
        *_home_secrets(home),
        *SYSTEM_SECRETS,
        *(path.resolve() for path in inputs.private),
    )
    return Confinement(
        writable=(root,),
        temporary=temporary,
        protected=tuple(dict.fromkeys(path for path in protected if not inputs.disposable or os.path.lexists(path))),
        hidden=tuple(dict.fromkeys(hidden)),
        readable=tuple(path.resolve() for path in inputs.shown),
    )


def with_new_secrets(zone: Confinement, known: Collection[str]) -> Confinement:
    """Return the profile with secrets hidden that appeared at the top of the workspace since it was built.

    `known` are the names that existed then and need no check.
    """
    new = tuple(path for path in top_level_secrets(zone.writable[0], known) if path not in zone.hidden)
    return structs.replace(zone, hidden=(*zone.hidden, *new)) if new else zone


def top_level_secrets(root: Path, tracked: Collection[str] = ()) -> Iterator[Path]:
    """Yield the files at the top of a workspace whose names say that they hold secrets."""
    names = (entry.name for entry in _entries(root) if entry.is_file())
    return (root / name for name in names if name not in tracked and secret_entry(name))


def _home_settings(home: Path, temporary: Path) -> Iterator[Path]:
    """Yield the settings and programs of a home: `LOGIN_FILES` and all dot files.

    Of a folder that contains `temporary`, yield its other entries instead.
    """
    yield from (home / name for name in LOGIN_FILES)
    for entry in _entries(home):
        if entry.name.startswith("."):
            yield from _siblings(home / entry.name, temporary)


def _siblings(path: Path, excluded: Path) -> Iterator[Path]:
    """Yield `path`, or if it contains `excluded`, everything in it but `excluded` and its parents."""
    if not excluded.is_relative_to(path):
        yield path
    elif excluded != path:
        for entry in _entries(path):
            yield from _siblings(path / entry.name, excluded)


def _home_secrets(home: Path) -> Iterator[Path]:
    """Yield the existing secrets of a home: at its top, in its configuration folders, and control sockets."""
    yield from (home / entry.name for entry in _entries(home) if secret_entry(entry.name))
    deeper = [entry for entry in SECRET_FILES if "/" in entry.strip("/") and not entry.startswith("/")]
    for entry in (*deeper, *CONTROL_SOCKETS, *BROWSER_PROFILES):
        yield from _found(home, entry.split("/"))


def _found(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the existing paths below `folder` with these path segments, ignoring case; a segment may end in `*`."""
    prefix = names[0].rstrip("*")
    for entry in _entries(folder):
        name = entry.name.casefold()
        if name == prefix or (names[0].endswith("*") and name.startswith(prefix)):
            path = folder / entry.name
            if len(names) == 1:
                yield path
            else:
                yield from _found(path, names[1:])


def _hooks(root: Path) -> Iterator[Path]:
    """Yield the folder that `core.hooksPath` names, if it is inside the workspace."""
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


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; empty if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
