"""Set up the sandbox for an agent's commands from the user's settings and what this machine supports."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import msgspec

from scaffold.core.errors import TrustError
from scaffold.core.run_settings import SandboxMode, SandboxSettings
from scaffold.host.sandbox.confinement import GIBIBYTE, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.level import DetectedLevel, detect_level
from scaffold.host.sandbox.proxy import serve_proxy
from scaffold.policy.rule.public_addresses import is_public
from scaffold.policy.sandbox_profiles import SandboxInputs, workspace_profile

KERNEL_PATHS = (Path("/dev"), Path("/proc"), Path("/sys"))
"""Kernel file systems: writing there changes the system, not files."""
ROOT_WORKSPACE = DetectedLevel("none", "the workspace is the system itself", "start in a subfolder")
"""No sandbox is possible: a workspace that contains the system could change what the sandbox is built from."""

SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)


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
            f"a sandbox is required, but none is available: {detected.trouble}",
            f"To get one, {detected.fix}. Without `--sandbox require`, commands ask for your approval instead.",
        )


def _is_system(root: Path) -> bool:
    return root == Path(root.anchor) or any(root.is_relative_to(folder) for folder in KERNEL_PATHS)
