"""What a hook costs besides its command, in the same sandbox: matching, JSON and its answer.

The sandbox itself is measured by `sandboxed_command`.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.core.extension_set import Extensions, Hook
from scaffold.extensions.hooks.event_runner import HookContext, HookRunner
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.level import detect_level
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile

MOST_MS = 15.0
COMMAND = "cat >/dev/null; echo '{}'"
CALL = {"tool_name": "Write", "tool_input": {"file_path": "/x", "content": "word " * 2_000}}


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the median of a hook for a call of 10 kB, less that of its command alone, both in the sandbox."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        root = Path(folder, "root")
        root.mkdir()
        extra = asyncio.run(_extra_ms(root, Path(folder, "temporary"), 5 if quick else 100))
    yield row("agent-hook", extra, MOST_MS, unit="ms", goal=1.0)


async def _extra_ms(root: Path, temporary: Path, rounds: int) -> float:
    finding, env = await detect_level(os.environ), child_environment(os.environ)
    zone = workspace_profile(SandboxInputs(root=root, home=Path.home(), temporary=temporary), os.environ)
    sandbox = None if finding.level == "none" else SandboxSpec(finding.level, zone, program=finding.program)
    hook = Hook(event="PreToolUse", matcher="Write", command=COMMAND, timeout_s=60, source="bench", own=False)
    place = HookContext(cwd=root, project=root, environ=env, sandbox=sandbox, about={"session_id": "bench"})
    runner = HookRunner(Extensions(folder=str(root), hooks=(hook,)), place, print)
    differences = []
    for _ in range(rounds):
        started = time.perf_counter()
        contained = Containment(sandbox=sandbox)
        await run_command(["/bin/sh", "-c", COMMAND], cwd=root, env=env, timeout_s=60, containment=contained)
        alone = time.perf_counter()
        answer = await runner.run("PreToolUse", CALL, ("Write", "write_file"))
        if answer.broken:
            raise AssertionError(answer.broken)
        differences.append((time.perf_counter() - alone - (alone - started)) * 1000)
    return statistics.median(differences)
