"""What a sandbox adds to a command, beside the 40 ms that it may; skipped where none works."""

import asyncio
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.level import detect_level
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile

MOST_MS = 40.0


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the median of a sandboxed `true` less that of the plain one before it, both contained."""
    finding = asyncio.run(detect_level(os.environ))
    if finding.level == "none":
        sys.stderr.write(f"sandboxed-command is not measured: {finding.problem}; {finding.fix}\n")
        return
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        root, temporary = Path(folder, "root"), Path(folder, "temporary")
        root.mkdir()
        zone = workspace_profile(SandboxInputs(root=root, home=Path.home(), temporary=temporary), os.environ)
        extra = asyncio.run(
            _extra_ms(SandboxSpec(finding.level, zone, program=finding.program), root, 2 if quick else 40)
        )
    yield row("sandboxed-command", extra, MOST_MS, unit="ms more than without", goal=1.0)


async def _extra_ms(sandbox: SandboxSpec, root: Path, rounds: int) -> float:
    env = child_environment(os.environ)
    differences: list[float] = []
    for _ in range(rounds):
        plain = await run_command(["true"], cwd=root, env=env, timeout_s=60, containment=Containment())
        held = await run_command(["true"], cwd=root, env=env, timeout_s=60, containment=Containment(sandbox=sandbox))
        if held.exit_code != 0:
            raise AssertionError(held.stderr)
        differences.append((held.duration_s - plain.duration_s) * 1000)
    return statistics.median(differences)
