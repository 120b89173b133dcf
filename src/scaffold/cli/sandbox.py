"""What holds the commands of a session of `ralph`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from scaffold.cli.settings import Settings
from scaffold.core.errors import GitFailed
from scaffold.core.model import Network, RunSettings, SandboxMode
from scaffold.git.command import Git
from scaffold.git.registration import checkout_around, repository_of
from scaffold.host.dirs import user_dirs
from scaffold.host.sandbox.confinement import GIBIBYTE, Enclosure, Limits
from scaffold.host.sandbox.level import Finding, find_level
from scaffold.policy.sandbox import Grounds, Sandbox, enclosed, given
from scaffold.policy.secrets import secret_by
from scaffold.policy.zones import secrets_at

REMEMBERED = "sandbox.json"
"""In the user's cache: what this machine can give."""


def sandbox_of(settings: Settings) -> Sandbox:
    """Return what the user wants commands to be held to."""
    return Sandbox(
        mode=cast("SandboxMode", settings.text("sandbox.mode")),  # checked where it was set
        network=cast("Network", settings.text("sandbox.network")),
        hosts=settings.texts("sandbox.hosts"),
        limits=Limits(memory_bytes=int(settings.number("sandbox.memory_gb") * GIBIBYTE)),
    )


async def found() -> Finding:
    """Return what this machine can give."""
    return await find_level(os.environ, cache=user_dirs(os.environ).cache / REMEMBERED)


def held_by(finding: Finding, settings: RunSettings) -> str:
    """Return what holds the commands of a run's agents, in a line for a person."""
    if settings.sandbox != "off" and finding.level != "none":
        better = f" ({finding.trouble}; for a better one, {finding.fix})" if finding.trouble else ""
        return f"sandbox {finding.level}, network {settings.network}{better}"
    why = "none is wanted" if settings.sandbox == "off" else finding.trouble
    mend = "" if settings.sandbox == "off" else f"; to have one, {finding.fix}"
    if settings.yolo:
        return f"warning: no sandbox ({why}): commands can reach all that you can, and nobody is asked{mend}"
    return f"no sandbox ({why}): commands of agents wait for your consent, `scaffold inbox` shows them{mend}"


async def enclosure_for(sandbox: Sandbox, root: Path, home: Path, *, conversation: str) -> Enclosure | None:
    """Return what holds commands of a conversation that work in `root`; None where nothing does.

    Their temporary folder goes when what is kept of the conversation's outputs goes. TrustProblem if there must be a
    sandbox and is none.
    """
    root = root.resolve()  # noqa: ASYNC240 - no more than other looks at the disk here
    dirs, checkout = user_dirs(os.environ), checkout_around(root)
    outputs = dirs.cache / "outputs" / conversation
    grounds = Grounds(
        root=root,
        home=home,
        temporary=outputs / "temporary",
        private=(dirs.config, dirs.data, dirs.cache, *(await _secrets_above(root, checkout) if checkout else ())),
        shown=(dirs.data / "packages", outputs, *(repository_of(checkout) if checkout else ())),
        tracked=await _tracked(root),
    )
    return await enclosed(sandbox, grounds, os.environ, cache=dirs.cache / REMEMBERED)


async def shortfall(sandbox: Sandbox, root: Path) -> str | None:
    """Return, in a line for the user, that nothing holds commands in `root` though something should; None if not so."""
    finding = await given(root, os.environ, cache=user_dirs(os.environ).cache / REMEMBERED)
    if sandbox.mode == "off" or finding.level != "none":
        return None
    return f"no sandbox: {finding.trouble}; commands can reach all that you can. To have one, {finding.fix}."


async def _secrets_above(root: Path, checkout: Path) -> Sequence[Path]:
    """Return the secrets beside `root` and further up, as far as the checkout that it lies in goes."""
    above = [folder for folder in root.parents if folder.is_relative_to(checkout)]
    return [secret for folder in above for secret in secrets_at(folder, await _tracked(folder))]


async def _tracked(root: Path) -> frozenset[str]:
    """Return which files at the top of a folder have names of secrets, and are kept by git all the same."""
    names = [name for name in os.listdir(root) if secret_by(name)]  # noqa: PTH208 - names are all it takes
    if not names:
        return frozenset()
    try:
        listed = await Git(root, environ=os.environ)("ls-files", "-z", "--", *names)
    except GitFailed:  # no repository: nothing is kept by one
        return frozenset()
    return frozenset(listed.records)
