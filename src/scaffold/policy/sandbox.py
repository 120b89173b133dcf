"""What holds the commands of an agent: what a user wants, and what this machine can give."""

import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from scaffold.core.errors import TrustProblem
from scaffold.core.model import Network, SandboxMode
from scaffold.host.sandbox.confinement import Enclosure, Limits
from scaffold.host.sandbox.level import Finding, find_level
from scaffold.host.sandbox.proxy import opened_proxy
from scaffold.policy.addresses import is_public
from scaffold.policy.zones import workspace_zone

SYSTEM = (Path("/dev"), Path("/proc"), Path("/sys"))
"""What a kernel shows of itself: whoever changes that changes more than files."""
UNBOUNDED = Finding("none", "the workspace is the system itself", "begin in a folder of its own")
"""What could be changed there is what holds a sandbox together."""

SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)


class Sandbox(Struct, frozen=True, kw_only=True):
    """What a user wants commands to be held to."""

    mode: SandboxMode = "auto"
    network: Network = "loopback"
    hosts: tuple[str, ...] = ()
    """With the network `hosts`: which."""
    limits: Limits = Limits()


class Grounds(Struct, frozen=True, kw_only=True):
    """Where commands work, and which of what lies around them matters."""

    root: Path
    home: Path
    temporary: Path
    """What becomes their TMPDIR; need not exist."""
    private: Sequence[Path] = ()
    """Scaffold's own folders: logins, conversations, state, what other agents do."""
    shown: Sequence[Path] = ()
    """What lies in those or in a temporary folder of the system, and can be read all the same."""
    tracked: Collection[str] = ()
    """Names at the top of `root` that git keeps, and that are thus no secrets."""
    disposable: bool = False
    """Whether `root` is a checkout that nobody but us looks at, and that nothing is taken from unseen."""


async def enclosed(sandbox: Sandbox, grounds: Grounds, environ: Mapping[str, str], *, cache: Path) -> Enclosure | None:
    """Return what holds commands there; None where nothing does. TrustProblem if that is not what is wanted.

    What this machine can give is remembered in the file `cache`.
    """
    if sandbox.mode == "off":
        return None
    finding = await given(grounds.root, environ, cache=cache)
    require(sandbox, finding)
    if finding.level == "none":
        return None
    zone = workspace_zone(
        grounds.root,
        home=grounds.home,
        temporary=grounds.temporary,
        private=grounds.private,
        shown=grounds.shown,
        tracked=grounds.tracked,
        network=sandbox.network,
        hosts=sandbox.hosts,
        limits=sandbox.limits,
        absent=not grounds.disposable,
    )
    if grounds.disposable and finding.level == "landlock":
        zone = msgspec.structs.replace(zone, sealed=())  # with any of them it could make nothing beside them
    return Enclosure(finding.level, zone)


async def given(root: Path, environ: Mapping[str, str], *, cache: Path) -> Finding:
    """Return what can hold commands that work in `root`; what this machine can give is remembered in `cache`."""
    where = root.resolve()  # noqa: ASYNC240 - no more than other looks at the disk here
    return UNBOUNDED if _is_system(where) else await find_level(environ, cache=cache)


@asynccontextmanager
async def connected(enclosure: Enclosure | None) -> AsyncIterator[Enclosure | None]:
    """Yield what holds commands, with their way to the named hosts while the block lasts, where hosts are granted.

    At the level `landlock` there is none: it can hold no network but nothing at all.
    """
    if enclosure is None or enclosure.confinement.network != "hosts" or enclosure.level == "landlock":
        yield enclosure
        return
    with tempfile.TemporaryDirectory(prefix="scaffold-") as folder:  # paths of sockets must be short
        async with opened_proxy(Path(folder), enclosure.confinement.hosts, is_public=is_public) as proxy:
            yield msgspec.structs.replace(enclosure, proxy=proxy)


def require(sandbox: Sandbox, finding: Finding) -> None:
    """Raise TrustProblem if a sandbox must be there and is not."""
    if sandbox.mode == "require" and finding.level == "none":
        raise TrustProblem(
            f"a sandbox is required, and there is none: {finding.trouble}",
            f"To have one, {finding.fix}. Without `--sandbox require` commands wait for your consent instead.",
        )


def _is_system(root: Path) -> bool:
    return root == Path(root.anchor) or any(root.is_relative_to(folder) for folder in SYSTEM)
