"""The sandbox of the commands of a session of `ralph`."""

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from scaffold.core.run_settings import SandboxSettings
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.child_environment import agent_variables
from scaffold.host.sandbox.confinement import CommandSandbox, DeferredSandbox, SandboxSpec
from scaffold.host.sandbox.level import LEVEL_CACHE
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.command_sandbox import SandboxInputs, probe_level, usable_level, with_egress
from scaffold.policy.secret.command_environment import TOLD_VARIABLES, command_environment, left_out_notice
from scaffold.session.options import SessionOptions


async def session_sandbox(
    sandbox: SandboxSettings,
    root: Path,
    home: Path,
    *,
    conversation: str,
    scripts: Sequence[Path] = (),
    shown: Sequence[Path] = (),
) -> DeferredSandbox | None:
    """Return the sandbox of commands that a conversation runs in `root`; None for no sandbox.

    Commands cannot write `scripts`, which hooks run, and may read what is `shown`. Its temporary folder is removed with
    the conversation's command outputs. TrustError if a sandbox is required and none works.
    """
    root = root.resolve()  # noqa: ASYNC240 - as quick as the other disk reads here
    dirs, checkout = user_dirs(), find_checkout(root)
    outputs = dirs.cache / "outputs" / conversation
    inputs = SandboxInputs(
        root=root,
        home=home,
        temporary=temporary_folder(conversation),
        private=(dirs.config, dirs.data, dirs.cache),
        shown=(dirs.data / "packages", outputs, *shown),
        # A session in a subfolder can read the rest of the repository, and with it the `.env` at its top.
        searched=(checkout or root,),
        protected=scripts,
    )
    detected = await usable_level(sandbox, root, os.environ, cache=dirs.cache / LEVEL_CACHE)
    if detected is None:
        return None

    async def build() -> SandboxSpec:
        with importing():  # many conversations run no command
            from scaffold.policy.sandbox_profile import build_spec
        return await build_spec(sandbox, inputs, os.environ, detected)

    return DeferredSandbox(detected.level, sandbox.network, sandbox.hosts, build)


async def with_named_hosts(found: DeferredSandbox | None, stack: AsyncExitStack) -> CommandSandbox | None:
    """Return the sandbox; if it reaches named hosts, built, and with a proxy to them until the stack is closed."""
    if found is None or found.network != "hosts":
        return found
    return await stack.enter_async_context(with_egress(await found.spec()))


def temporary_folder(conversation: str) -> Path:
    """Return the TMPDIR of a conversation's commands in their sandbox."""
    return user_dirs().cache / "outputs" / conversation / "temporary"


async def missing_sandbox_notice(sandbox: SandboxSettings, root: Path) -> str | None:
    """Return a one-line warning if commands in `root` should run in a sandbox and none works, else None."""
    finding = await probe_level(root, os.environ, cache=user_dirs().cache / LEVEL_CACHE)
    if sandbox.mode == "off" or finding.level != "none":
        return None
    return f"no sandbox: {finding.problem}; commands can access everything you can. To get one, {finding.fix}."


def command_variables(options: SessionOptions, subagent: str) -> dict[str, str]:
    """Return the environment of commands; it names the `subagent` that runs them, if any, by its conversation."""
    return command_environment(os.environ, agent_variables(subagent) if subagent else {}, names=options.environment)


def tell_what_is_left_out(options: SessionOptions, tell: Callable[[str], object]) -> None:
    """Tell the user, once, which of their variables commands do not get."""
    if notice := left_out_notice(os.environ, options.environment, told=user_dirs().cache / TOLD_VARIABLES):
        tell(notice)
