"""Sandboxes of agents' commands: the level that this machine can enforce, and the hosts that they may reach."""

import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct, structs

from scaffold.core.errors import TrustError
from scaffold.core.run_settings import SandboxMode, SandboxSettings
from scaffold.git.client.command_line import Git
from scaffold.host.leftovers import temporary_prefix
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.level import DetectedLevel, detect_level
from scaffold.host.startup import importing
from scaffold.policy.rule.hosts import is_public
from scaffold.policy.secret.unreadable_files import secret_scan, targets

MAX_HIDDEN = 300
"""The most secrets of a workspace that are hidden one by one."""
ENVIRONMENT_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
"""The entries that a virtual environment runs from, if it is the workspace itself."""
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
    opened: Sequence[Path] = ()
    """Paths that the user's settings show to commands, except for the secrets in them."""
    protected: Sequence[Path] = ()
    """Other files that commands cannot change or create, such as the scripts of hooks."""
    searched: Sequence[Path] = ()
    """Checkouts whose untracked secrets are hidden, `root` or the one around it among them."""
    git: Git | None = None
    """Git in `root`, if that is known: its settings are not read again then."""
    disposable: bool = False
    """Whether `root` is an internal checkout from which nothing is used without a check: missing protected paths are
    not protected there, so that commands can create them."""


def with_new_secrets(zone: Confinement, known: Collection[str]) -> Confinement:
    """Return the profile with secrets hidden that appeared in the workspace since it was built.

    `known` are the paths, relative to the workspace, that existed then: they are hidden already, or no secrets.
    """
    root = zone.writable[0]
    found = [path for path in secret_scan(root).paths() if path.relative_to(root).as_posix() not in known]
    new = tuple(path for path in fold_into_folders(found, root) if path not in zone.hidden)
    return structs.replace(zone, hidden=(*zone.hidden, *new)) if new else zone


def known_secrets(root: Path) -> frozenset[str]:
    """Return the current paths in a workspace that are named like secrets, relative to it."""
    return frozenset(path.relative_to(root).as_posix() for path in secret_scan(root).paths())


def fold_into_folders(found: Sequence[Path], root: Path) -> list[Path]:
    """Return the paths; a sandbox takes only so many, so instead of most of them their folders."""
    paths = list(targets(found, within=(root, Path.home())))
    while len(paths) > MAX_HIDDEN:
        counts = Counter(path.relative_to(root).parts[0] for path in paths if path.is_relative_to(root))
        folder = root / counts.most_common(1)[0][0]
        kept = [path for path in paths if not path.is_relative_to(folder)]
        if len(paths) - len(kept) <= 1:
            break
        paths = [*kept, folder]
    return paths


def own_programs(root: Path, places: Sequence[str] = (sys.prefix, sys.base_prefix)) -> Iterator[Path]:
    """Yield what Scaffold itself runs from inside the workspace: its virtual environment may be that of the project.

    Its interpreter, its packages and its bubblewrap run outside of any sandbox.
    """
    for place in map(Path, dict.fromkeys(places)):
        # the path as it is spelled, too: a link to the environment could be replaced
        for path in dict.fromkeys((place, place.parent.resolve() / place.name, place.resolve())):
            if path == root:
                yield from (path / name for name in ENVIRONMENT_PARTS)
            elif path.is_relative_to(root):
                yield path


async def usable_level(
    settings: SandboxSettings, root: Path, environ: Mapping[str, str], *, cache: Path
) -> DetectedLevel | None:
    """Return the level of commands in `root`; None without a sandbox. Raise TrustError if one is required."""
    if settings.mode == "off":
        return None
    detected = await probe_level(root, environ, cache=cache)
    require_sandbox(settings, detected)
    return None if detected.level == "none" else detected


async def probe_level(root: Path, environ: Mapping[str, str], *, cache: Path) -> DetectedLevel:
    """Return the sandbox level that is possible for `root`; the machine's level is cached in `cache`."""
    resolved = root.resolve()  # noqa: ASYNC240 - as fast as the other disk reads here
    if resolved == Path(resolved.anchor) or any(map(resolved.is_relative_to, KERNEL_PATHS)):
        return ROOT_WORKSPACE
    return await detect_level(environ, cache=cache)


@asynccontextmanager
async def with_egress(spec: SandboxSpec | None) -> AsyncIterator[SandboxSpec | None]:
    """Yield the sandbox, with a proxy to the allowed hosts running during the block if its network is `hosts`."""
    if spec is None or spec.confinement.network != "hosts":
        yield spec
        return
    with importing():
        from scaffold.host.sandbox.proxy import serve_proxy
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:  # socket paths must be short
        # Without a network namespace of its own, a command would need a Unix socket that its tools cannot use.
        place = Path(folder) if spec.level == "bubblewrap" else None
        async with serve_proxy(place, spec.confinement.hosts, is_public=is_public) as (proxy, port):
            yield msgspec.structs.replace(spec, proxy=proxy, port=port)


def require_sandbox(sandbox: SandboxSettings, detected: DetectedLevel) -> None:
    """Raise TrustError if a sandbox is required and none is available."""
    if sandbox.mode == "require" and detected.level == "none":
        raise TrustError(
            f"a sandbox is required, but none is available: {detected.problem}",
            f"To get one, {detected.fix}. Without `--sandbox require`, commands ask for your approval instead.",
        )


def needs_agreement(sandbox: SandboxSettings, detected: DetectedLevel) -> bool:
    """Return whether code of a repository would run with all rights of a user who has not agreed to that."""
    return detected.level == "none" and not sandbox.unconfined


def require_agreement(sandbox: SandboxSettings, detected: DetectedLevel, *, trusted: bool = True) -> None:
    """Raise TrustError if code of a repository would run without a sandbox and without the user's agreement.

    Called before anything runs that no agent's tool call asks about: gates, checks, set-up, services, hooks, servers.
    """
    if needs_agreement(sandbox, detected):
        confirm = "confirm on a terminal what runs (`--yes` does not)"
        steps = confirm if trusted else f"`scaffold trust` this folder, then {confirm}"
        raise TrustError(
            f"there is no sandbox, so the repository's code would run with all your rights: {detected.problem}",
            f"To get one, {detected.fix}. Or {steps}; or pass `--sandbox off`, or `scaffold config sandbox.mode off`.",
        )
