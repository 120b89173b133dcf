"""What one program does: its drill, and one edit with the time, the memory and the first request."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from executor_table.model_server import serve_models
from executor_table.programs import Setup, setup_of
from scaffold.core.run_settings import SandboxSettings
from scaffold.executors.drill import EDIT, DrillVerdict, drill_program, opened_scratch, user_place
from scaffold.executors.installed import ask_version
from scaffold.executors.port import PermissionAnswer

MARK = "EXECUTOR_TABLE"
SAMPLE_S = 0.1


class Measured(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    verdict: DrillVerdict
    edited: bool
    seconds: float
    """From the start of the program to its end, for one edit."""
    peak_mb: float
    """The most memory that its processes had at once, as sampled."""
    requests: int
    first_bytes: int
    """Of the first request that offers tools: others ask for a title."""


async def measure(name: str, path: str, home: Path) -> Measured:
    """Return what the program does; `path` has its folder first, and `home` is its own."""
    with serve_models() as (port, seen):
        setup = with_files(setup_of(name, port, home))
        environ = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **setup.environ}
        program = await ask_version(setup.spec, user_place(Path("/nowhere"), environ))
        verdict = await drill_program(program, environ, SandboxSettings(mode="require"))
        seen.clear()
        spec = structs.replace(setup.spec, variables={**setup.spec.variables, MARK: str(port)})
        async with opened_scratch(spec, environ, SandboxSettings(mode="require")) as (scratch, _):
            sampling = asyncio.create_task(_peak_mb(f"{MARK}={port}\0".encode()))
            started = time.monotonic()
            outcome = await scratch.take_turn(EDIT, _allow_call)
            seconds = time.monotonic() - started
            sampling.cancel()
            peak_mb = await sampling
    return Measured(
        verdict=verdict,
        edited=outcome.acted,
        seconds=seconds,
        peak_mb=peak_mb,
        requests=len(seen),
        first_bytes=next((size for size, offers_tools in seen if offers_tools), 0),
    )


async def _allow_call() -> PermissionAnswer:
    return PermissionAnswer(True)


def with_files(setup: Setup) -> Setup:
    """Write a program's settings into its folder."""
    folder = Path(setup.spec.credentials)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in setup.files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return setup


async def _peak_mb(mark: bytes) -> float:
    peak = 0
    with suppress(asyncio.CancelledError):
        while True:
            peak = max(peak, sum(_resident_pages(mark)))
            await asyncio.sleep(SAMPLE_S)
    return peak * os.sysconf("SC_PAGE_SIZE") / 1e6


def _resident_pages(mark: bytes) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if mark in (process / "environ").read_bytes():
                yield int((process / "statm").read_text().split()[1])
