"""Use ripgrep, if installed, to skip files that cannot match."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from scaffold.host.process.command_runner import OutputCapture, run_command
from scaffold.tools.content.walk import SKIPPED_FOLDERS, walk_order
from scaffold.tools.search.regex_literals import required_literals
from scaffold.tools.workspace import Workspace

TIMEOUT_S = 30
LIST_LIMIT_BYTES = 20_000_000
_EVERYTHING = ("--no-config", "--no-messages", "--no-ignore", "--hidden", "--text", "--mmap")
"""--mmap: a huge file without newlines is not read into memory."""
_SKIPPED = ("--glob=!.git", *(f"--glob=!{name}/" for name in sorted(SKIPPED_FOLDERS)))


async def candidate_files(workspace: Workspace, folder: Path, pattern: re.Pattern[str]) -> Sequence[Path] | None:
    """Return the files below `folder` that `pattern` may match, in walk order; None if unknown.

    Unknown: ripgrep is missing or failed, or the pattern has no required word. Ripgrep searches for fixed words only,
    so its different regular expression syntax does not matter.
    """
    program = _ripgrep(workspace)
    words = required_literals(pattern)
    if program is None or words is None:
        return None
    # Joined with `=`, so that a word that begins with a dash is not taken for an option.
    patterns = (f"--regexp={word}" for word in words)
    finished = await run_command(
        [program, "--files-with-matches", "--null", "--fixed-strings", *_EVERYTHING, *_SKIPPED, *patterns, "./"],
        cwd=folder,
        env=workspace.own_env,
        timeout_s=TIMEOUT_S,
        output=OutputCapture(limit_bytes=LIST_LIMIT_BYTES),
    )
    if finished.exit_code not in {0, 1} or finished.truncated:
        return None
    found = (Path(os.fsdecode(name)) for name in finished.stdout.split(b"\0") if name)
    return [folder / path for path in sorted(found, key=walk_order)]


def _ripgrep(workspace: Workspace) -> str | None:
    """Return the path of rg, or None; one inside the workspace is not trusted, an agent may have written it."""
    found = shutil.which("rg", path=workspace.own_env["PATH"])
    if found is None or not Path(found).is_absolute():
        return None
    return None if Path(found).resolve().is_relative_to(workspace.root.resolve()) else found
