"""Keep the whole output of failed checks and gates, and of gates that could not judge, for people to read."""

from contextlib import suppress
from pathlib import Path

from scaffold.core.ids import RunId
from scaffold.host.atomic_files import write_atomic
from scaffold.run.context import RunContext, safe_file_name

MAX_CHARS = 1_000_000
MAX_LOGS = 100
"""How many logs of a run are kept; the oldest go first."""


def keep_gate_log(context: RunContext, run_id: RunId, name: str, text: str) -> str:
    """Write a log without secrets and return its path, relative to the checkout if it is there; empty if it cannot."""
    return write_gate_log(context.gate_logs(run_id), name, context.redactor.clean(text), context.repository.root)


def write_gate_log(folder: Path, name: str, text: str, root: Path) -> str:
    """Write a log to `folder` and return its path, relative to the checkout `root` if it is there; empty on failure."""
    path = folder / f"{safe_file_name(name)}.log"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text[-MAX_CHARS:].encode(errors="replace"))
        oldest_first = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
        for old in oldest_first[:-MAX_LOGS]:
            old.unlink(missing_ok=True)
        return shown_path(root, path)
    return ""


def shown_path(root: Path, path: Path) -> str:
    """Return a path as it is shown: relative to the checkout's `root` if it is there."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
