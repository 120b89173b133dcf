"""Start processes that outlive us and our terminal."""

import subprocess  # noqa: TID251 - `host` starts processes
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from scaffold.core.model import ProcessIdentity
from scaffold.host.identity import identify


def start_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> ProcessIdentity:
    """Start `argv` in its own session, append its output to `log`, and return its identity; OSError on failure.

    It has no terminal and no input, and our signals and our end do not reach it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    return identity
