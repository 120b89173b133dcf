"""The sandbox of agents' commands, built for the first of them."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.core.run_settings import SandboxSettings
from scaffold.host.sandbox.confinement import DeferredSandbox, SandboxSpec, built
from scaffold.host.startup import importing
from scaffold.policy.command_sandbox import SandboxInputs, probe_level, require_sandbox


async def build_sandbox_spec(
    settings: SandboxSettings, inputs: SandboxInputs, environ: Mapping[str, str], *, cache: Path
) -> SandboxSpec | None:
    """Return the sandbox for commands in `inputs.root`; see `defer_sandbox`."""
    return await built(await defer_sandbox(settings, inputs, environ, cache=cache))


async def defer_sandbox(
    settings: SandboxSettings, inputs: SandboxInputs, environ: Mapping[str, str], *, cache: Path
) -> DeferredSandbox | None:
    """Return the sandbox for commands in `inputs.root`; None without one. Raise TrustError if one is required.

    The detected level of this machine is cached in the file `cache`.
    """
    if settings.mode == "off":
        return None
    detected = await probe_level(inputs.root, environ, cache=cache)
    require_sandbox(settings, detected)
    if detected.level == "none":
        return None

    async def build() -> SandboxSpec:
        with importing():  # many conversations run no command
            from scaffold.policy.sandbox_profile import build_spec
        return await build_spec(settings, inputs, environ, detected)

    return DeferredSandbox(detected.level, settings.network, settings.hosts, build)
