"""Output of commands that is longer than a model sees, kept on disk so that it can be looked into."""

from pathlib import Path

from scaffold.host.files import write_atomic
from scaffold.host.ids import new_id
from scaffold.host.process import Finished
from scaffold.tools.workspace import ANSWER_LIMIT, excerpt

KEPT_BYTES = 20_000_000
"""Of each of stdout and stderr; of more, head and tail with a note between them."""
KEPT_FILES = 20
_SHARES = {"stdout": ANSWER_LIMIT * 2 // 3, "stderr": ANSWER_LIMIT // 3}


def told(finished: Finished, outputs: Path | None) -> str:
    """Return what a command said, in bounds; what that leaves out is kept in a file of the folder `outputs`, if any."""
    said = {"stdout": finished.stdout, "stderr": finished.stderr}
    texts = {name: data.decode(errors="replace").rstrip("\n") for name, data in said.items() if data.strip(b"\n")}
    parts = [f"--- {name}\n{excerpt(text, _SHARES[name])}" for name, text in texts.items()]
    if outputs is not None and any(len(text) > _SHARES[name] for name, text in texts.items()):
        parts.append(f"--- all of it, up to {KEPT_BYTES} bytes a stream, is in {_keep(said, outputs)}")
    return "\n".join(parts)


def _keep(said: dict[str, bytes], outputs: Path) -> Path:
    """Write a new file and remove the oldest ones beyond those that are kept."""
    file = outputs / f"output-{new_id()}.txt"
    write_atomic(file, b"".join(b"--- %s\n%s\n" % (name.encode(), data) for name, data in said.items() if data))
    others = (other for other in outputs.glob("output-*.txt") if other != file)
    by_age = sorted(others, key=lambda other: other.stat().st_mtime_ns, reverse=True)
    for old in by_age[KEPT_FILES - 1 :]:
        old.unlink(missing_ok=True)
    return file


def ending(finished: Finished) -> str:
    """Return how a command ended and how long it took."""
    if finished.timed_out:
        how = "stopped at its time limit (give timeout_s for longer work)"
    elif finished.signal is not None:
        how = f"killed by signal {finished.signal}"
    else:
        how = f"exit code {finished.exit_code}"
    return f"{how} after {finished.duration_s:.1f} s"
