"""Keep the whole output of failed checks and gates, and of gates that could not judge, for people to read."""

from contextlib import suppress
from pathlib import Path

from scaffold.core.ids import RunId
from scaffold.host.contained_path import ContainedPath
from scaffold.run.context import RunContext, safe_file_name

MAX_CHARS = 1_000_000
MAX_LOGS = 100
"""How many logs of a run are kept; the oldest go first."""


def keep_gate_log(context: RunContext, run_id: RunId, name: str, text: str) -> str:
    """Write a log without secrets and return its path, relative to the checkout if it is there; empty if it cannot."""
    return write_gate_log(context.gate_logs(run_id), name, context.redactor.clean(text), context.repository.root)


def write_gate_log(folder: ContainedPath, name: str, text: str, root: Path) -> str:
    """Write a log to `folder` and return its path, relative to the checkout `root` if it is there; empty on failure."""
    path = folder / f"{safe_file_name(name)}.log"
    with suppress(OSError):
        path.write(text[-MAX_CHARS:].encode(errors="replace"))
        logs = [each for each in folder.entries() if each[0].name.endswith(".log")]
        for old, _ in sorted(logs, key=lambda each: each[1].st_mtime_ns)[:-MAX_LOGS]:
            old.delete()
        return shown_path(root, path)
    return ""


def shown_path(root: Path, path: ContainedPath) -> str:
    """Return a path as it is shown: relative to the checkout's `root` if it is there."""
    return str(path.path.relative_to(root) if path.path.is_relative_to(root) else path)
