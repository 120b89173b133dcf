"""What one program does: its drill, and one edit with the time, the memory and the first request."""

import asyncio
import json
import os
import subprocess  # noqa: TID251 - it runs a tokenizer
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
from scaffold.llm.wire.codec import BYTES_PER_TOKEN

MARK = "EXECUTOR_TABLE"
SAMPLE_S = 0.1
TOKENIZER = "gpt-tokenizer"
"""The package that counts tokens, by `o200k_base` of GPT-4o and later: it has the vocabulary in it."""
COUNT = f"""
const {{ countTokens }} = require("{TOKENIZER}/encoding/o200k_base");
console.log(countTokens(require("fs").readFileSync(0, "utf8"), {{ allowedSpecial: "all" }}));
"""


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
    first_estimate: int = 0
    """Its tokens as we estimate those of any text that was not sent yet."""
    first_tokens: int = 0
    """Its tokens as `TOKENIZER` counts them."""


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
    first = next((body for body, offers_tools in seen if offers_tools), b"")
    return Measured(
        verdict=verdict,
        edited=outcome.acted,
        seconds=seconds,
        peak_mb=peak_mb,
        requests=len(seen),
        first_bytes=len(first),
        first_estimate=len(first) // BYTES_PER_TOKEN,
        first_tokens=_count_tokens(first, path),
    )


def _count_tokens(text: bytes, path: str) -> int:
    """Return the number of tokens; `path` begins with the folder of Node and that of the installed packages."""
    node, packages = (Path(folder) for folder in path.split(os.pathsep)[:2])
    environ = {"NODE_PATH": str(packages.parent)}
    done = subprocess.run([node / "node", "-e", COUNT], input=text, env=environ, check=True, capture_output=True)
    return int(done.stdout)


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
