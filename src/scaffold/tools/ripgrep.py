"""Ripgrep, where there is one, to tell which files need not be opened at all."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from scaffold.host.process import run
from scaffold.tools.literals import needed_words
from scaffold.tools.walk import SKIPPED_FOLDERS, walk_order
from scaffold.tools.workspace import Workspace

TIME_LIMIT_S = 30
LIST_LIMIT_BYTES = 20_000_000
_EVERYTHING = ("--no-config", "--no-messages", "--no-ignore", "--hidden", "--text", "--mmap")
"""Mapped, so that a huge file without a line end is not read into memory whole."""
_SKIPPED = ("--glob=!.git", *(f"--glob=!{name}/" for name in sorted(SKIPPED_FOLDERS)))


async def preselected(workspace: Workspace, folder: Path, pattern: re.Pattern[str]) -> Sequence[Path] | None:
    """Return the files below `folder` that `pattern` may match in, in the order of a walk.

    None where that is not to be had: no ripgrep, a pattern without a word to look for, no folder, one it cannot list.
    Only fixed words are given to it, so that its own kind of regular expression never decides.
    """
    program = _ripgrep(workspace)
    words = needed_words(pattern)
    if program is None or words is None:
        return None
    asked = (f"--regexp={word}" for word in words)
    finished = await run(
        [program, "--files-with-matches", "--null", "--fixed-strings", *_EVERYTHING, *_SKIPPED, *asked, "./"],
        cwd=folder,
        env=workspace.env,
        timeout_s=TIME_LIMIT_S,
        limit_bytes=LIST_LIMIT_BYTES,
    )
    if finished.exit_code not in {0, 1} or finished.truncated:
        return None
    found = (Path(os.fsdecode(name)) for name in finished.stdout.split(b"\0") if name)
    return [folder / path for path in sorted(found, key=walk_order)]


def _ripgrep(workspace: Workspace) -> str | None:
    """Return the program; one that lies in the workspace is the agent's own work and not run for a search."""
    found = shutil.which("rg", path=workspace.env.get("PATH", ""))
    if found is None or not Path(found).is_absolute():
        return None
    return None if Path(found).resolve().is_relative_to(workspace.root.resolve()) else found
