"""The sandbox of the processes that read files which others made: they see the file, and reach nothing else."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.host.leftovers import temporary_prefix
from scaffold.host.sandbox.confinement import Confinement, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.level import LEVEL_CACHE, detect_level
from scaffold.host.user_dirs import user_dirs

MEMORY_BYTES = 1 << 30


class ReaderPlace(Struct, frozen=True):
    """Where a reader runs: an empty folder, and the sandbox; None on a machine that has none."""

    folder: Path
    sandbox: SandboxSpec | None


@asynccontextmanager
async def reader_place() -> AsyncIterator[ReaderPlace]:
    """Yield where readers run during the block: without network, the user's files, or a folder to write to.

    On a machine without a sandbox they have only the limits of time, memory and files that they give themselves.
    """
    detected = await detect_level(os.environ, cache=user_dirs().cache / LEVEL_CACHE)
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as name:
        confinement = _reader_confinement(Path(name))
        sandbox = SandboxSpec(detected.level, confinement, program=detected.program)
        yield ReaderPlace(confinement.temporary, None if detected.level == "none" else sandbox)


def _reader_confinement(folder: Path) -> Confinement:
    hidden = (Path.home().resolve(), Path.cwd().resolve())
    return Confinement(
        writable=(),
        temporary=folder.resolve(),
        hidden=tuple(dict.fromkeys(each for each in hidden if each != Path(each.anchor))),
        network="none",
        limits=ResourceLimits(processes=64, memory_bytes=MEMORY_BYTES, file_bytes=1 << 20),
    )
