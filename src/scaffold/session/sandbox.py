"""What holds the commands of a session of `ralph`."""

import os
from collections.abc import Sequence
from pathlib import Path

from scaffold.config.sandbox import LEVEL_CACHE
from scaffold.core.errors import GitError
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.command import Git
from scaffold.git.worktree_metadata import find_checkout, required_folders
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.sandbox_profiles import top_level_secrets
from scaffold.policy.sandbox_setup import SandboxInputs, build_enclosure, probe_level
from scaffold.policy.secret.files import secret_entry


async def session_sandbox(sandbox: SandboxSettings, root: Path, home: Path, *, conversation: str) -> SandboxSpec | None:
    """Return what holds commands of a conversation that work in `root`; None where nothing does.

    Their temporary folder goes when what is kept of the conversation's outputs goes. TrustProblem if there must be a
    sandbox and is none.
    """
    root = root.resolve()  # noqa: ASYNC240 - no more than other looks at the disk here
    dirs, checkout = user_dirs(os.environ), find_checkout(root)
    outputs = dirs.cache / "outputs" / conversation
    grounds = SandboxInputs(
        root=root,
        home=home,
        temporary=outputs / "temporary",
        private=(dirs.config, dirs.data, dirs.cache, *(await _secrets_above(root, checkout) if checkout else ())),
        shown=(dirs.data / "packages", outputs, *(required_folders(checkout) if checkout else ())),
        tracked=await _tracked(root),
    )
    return await build_enclosure(sandbox, grounds, os.environ, cache=dirs.cache / LEVEL_CACHE)


async def missing_sandbox_notice(sandbox: SandboxSettings, root: Path) -> str | None:
    """Return, in a line for the user, that nothing holds commands in `root` though something should; None if not so."""
    finding = await probe_level(root, os.environ, cache=user_dirs(os.environ).cache / LEVEL_CACHE)
    if sandbox.mode == "off" or finding.level != "none":
        return None
    return f"no sandbox: {finding.trouble}; commands can reach all that you can. To have one, {finding.fix}."


async def _secrets_above(root: Path, checkout: Path) -> Sequence[Path]:
    """Return the secrets beside `root` and further up, as far as the checkout that it lies in goes."""
    above = [folder for folder in root.parents if folder.is_relative_to(checkout)]
    return [secret for folder in above for secret in top_level_secrets(folder, await _tracked(folder))]


async def _tracked(root: Path) -> frozenset[str]:
    """Return which files at the top of a folder have names of secrets, and are kept by git all the same."""
    names = [name for name in os.listdir(root) if secret_entry(name)]  # noqa: PTH208 - names are all it takes
    if not names:
        return frozenset()
    try:
        listed = await Git(root, environ=os.environ)("ls-files", "-z", "--", *names)
    except GitError:  # no repository: nothing is kept by one
        return frozenset()
    return frozenset(listed.records)
