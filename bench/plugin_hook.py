"""What a hook of a plugin costs besides the plugin's own work, in the sandbox where there is one."""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.extensions.plugins.loaded import PluginPlace, load_plugins
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.level import detect_level
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile

MOST_MS = 15.0
KIT = Path(__file__).parents[1] / "examples" / "plugins" / "ralph_plugin.py"
IDLE = """#!/usr/bin/env python3
from ralph_plugin import Plugin

plugin = Plugin("idle")


@plugin.hook
def post_user_input(params):
    return None


plugin.run()
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the median of a hook of a plugin that does nothing, on a message of 10 kB."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        root, plugins = Path(folder, "root"), Path(folder, "plugins")
        root.mkdir()
        plugins.mkdir()
        shutil.copy(KIT, plugins)
        Path(plugins, "idle.py").write_text(IDLE)
        Path(plugins, "idle.py").chmod(0o755)
        measured = asyncio.run(_hook_ms(plugins, root, Path(folder, "temporary"), 5 if quick else 200))
    yield row("plugin-hook", measured, MOST_MS, unit="ms", goal=1.0)


async def _hook_ms(plugins: Path, root: Path, temporary: Path, rounds: int) -> float:
    finding = await detect_level(os.environ)
    zone = workspace_profile(SandboxInputs(root=root, home=Path.home(), temporary=temporary), os.environ)
    sandbox = None if finding.level == "none" else SandboxSpec(finding.level, zone, program=finding.program)
    loaded = await load_plugins(PluginPlace(folder=plugins, cwd=root, environ=os.environ, sandbox=sandbox), {}, print)
    if not loaded.hooks.subscribed("post_user_input"):
        raise AssertionError(loaded.plugins[0].error)
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        await loaded.hooks.user_input("word " * 2_000)
        took.append((time.perf_counter() - started) * 1000)
    await loaded.close()
    return statistics.median(took)
