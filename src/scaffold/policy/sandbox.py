"""Sandboxes of agents' commands: which files and hosts they may reach, and what this machine can enforce."""

import os
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct, structs

from scaffold.core.errors import TrustError
from scaffold.core.run_settings import SandboxMode, SandboxSettings
from scaffold.git.worktree_metadata import common_dir, gitdir_target
from scaffold.host.sandbox.confinement import GIBIBYTE, Confinement, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.level import DetectedLevel, detect_level
from scaffold.host.sandbox.proxy import serve_proxy
from scaffold.policy.rule.public_addresses import is_public
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
KERNEL_PATHS = (Path("/dev"), Path("/proc"), Path("/sys"))
"""Kernel file systems: writing there changes the system, not files."""
ROOT_WORKSPACE = DetectedLevel("none", "the workspace contains the system's own files", "start in a subfolder")
"""No sandbox is possible: a workspace that contains the system could change what the sandbox is built from."""
SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)


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
        # Git runs whatever is in that folder, outside the sandbox, with the user's next command.
        *_hooks(root),
        # Elsewhere in the home nothing can be written anyway.
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


async def build_enclosure(
    sandbox: SandboxSettings, inputs: SandboxInputs, environ: Mapping[str, str], *, cache: Path
) -> SandboxSpec | None:
    """Return the sandbox for commands in `inputs.root`; None without one. Raise TrustError if one is required.

    The detected level of this machine is cached in the file `cache`.
    """
    if sandbox.mode == "off":
        return None
    detected = await probe_level(inputs.root, environ, cache=cache)
    require_sandbox(sandbox, detected)
    if detected.level == "none":
        return None
    zone = msgspec.structs.replace(
        workspace_profile(inputs),
        network=sandbox.network,
        hosts=sandbox.hosts,
        limits=ResourceLimits(memory_bytes=int(sandbox.memory_gb * GIBIBYTE)),
    )
    if inputs.disposable and detected.level == "landlock":
        # Landlock cannot exclude a path from a writable folder: commands could create nothing next to it
        zone = msgspec.structs.replace(zone, protected=())
    return SandboxSpec(detected.level, zone, program=detected.program)


async def probe_level(root: Path, environ: Mapping[str, str], *, cache: Path) -> DetectedLevel:
    """Return the sandbox level that is possible for `root`; the machine's level is cached in `cache`."""
    resolved = root.resolve()  # noqa: ASYNC240 - as fast as the other disk reads here
    return ROOT_WORKSPACE if _is_system(resolved) else await detect_level(environ, cache=cache)


@asynccontextmanager
async def with_egress(spec: SandboxSpec | None) -> AsyncIterator[SandboxSpec | None]:
    """Yield the sandbox, with a proxy to the allowed hosts running during the block if its network is `hosts`.

    No proxy at the level `landlock`, which cannot restrict the network to a proxy.
    """
    if spec is None or spec.confinement.network != "hosts" or spec.level == "landlock":
        yield spec
        return
    with tempfile.TemporaryDirectory(prefix="scaffold-") as folder:  # socket paths must be short
        async with serve_proxy(Path(folder), spec.confinement.hosts, is_public=is_public) as proxy:
            yield msgspec.structs.replace(spec, proxy=proxy)


def require_sandbox(sandbox: SandboxSettings, detected: DetectedLevel) -> None:
    """Raise TrustError if a sandbox is required and none is available."""
    if sandbox.mode == "require" and detected.level == "none":
        raise TrustError(
            f"a sandbox is required, but none is available: {detected.problem}",
            f"To get one, {detected.fix}. Without `--sandbox require`, commands ask for your approval instead.",
        )


def _is_system(root: Path) -> bool:
    return root == Path(root.anchor) or any(root.is_relative_to(folder) for folder in KERNEL_PATHS)
