"""The git command: one way to call it, with hooks, monitors, signing and upkeep off."""

import asyncio
import os
import re
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitFailed
from scaffold.host.environment import child_environment
from scaffold.host.process import Finished, run

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "i18n.commitEncoding=UTF-8",
    "maintenance.auto=false",
    "submodule.recurse=false",
)
CONFIGURATION = ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
"""Variables that say where the user's own settings are; no other GIT_* is inherited."""
SURROUNDINGS = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Before each repetition; up to twice as long, so that two that met do not meet again."""
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024

_LOCKED = re.compile(rb"\.lock': File exists|could not lock config file")
_SUCCESS = frozenset({0})


class Answer(Struct, frozen=True):
    """How a git command ended (one of the expected exit codes) and what it said."""

    exit_code: int
    out: bytes
    err: bytes

    @property
    def line(self) -> str:
        """The output without its last newline; bytes that are not UTF-8 as surrogate escapes."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def records(self) -> list[str]:
        """The parts of an output in which each part ends with a NUL (`-z`), decoded like `line`."""
        return [os.fsdecode(part) for part in self.out.split(b"\0")[:-1]]


class Git:
    """Git in one directory: `await git("rev-parse", "HEAD")`.

    At the `top` of a checkout it never looks for a repository further up: a worktree whose `.git` somebody removed
    must not become a part of whatever repository its parents are in.
    """

    def __init__(self, cwd: Path, *, environ: Mapping[str, str], top: bool = False) -> None:
        self.cwd = cwd
        self.environ = environ
        """What the user gave us; commands see little of it."""
        configuration = {name: environ[name] for name in CONFIGURATION if name in environ}
        ceiling = {"GIT_CEILING_DIRECTORIES": str(cwd.parent)} if top else {}
        self._env = child_environment(environ, configuration | SURROUNDINGS | ceiling)

    def at(self, path: Path) -> "Git":
        """Return the same git at the top of another checkout."""
        return Git(path, environ=self.environ, top=True)

    async def __call__(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = 120,
        ok: frozenset[int] = _SUCCESS,
        env: Mapping[str, str] | None = None,
        limit_bytes: int | None = None,
    ) -> Answer:
        """Run `git ARGS` and return its answer if its exit code is among `ok`; raises GitFailed otherwise.

        It is run again if a signal ended it or somebody else held a lock, so it must be safe to repeat. An output
        above `limit_bytes` is cut in the middle; without a limit, one that is too big to hold is a failure.
        """
        once = partial(
            run,
            ("git", *(word for setting in SETTINGS for word in ("-c", setting)), *args),
            cwd=self.cwd,
            env=self._env | dict(env or {}),
            timeout_s=timeout_s,
            stdin=stdin,
            limit_bytes=limit_bytes or OUTPUT_LIMIT_BYTES,
        )
        finished = await once()
        for pause_s in PAUSES_S:
            if not _worth_repeating(finished):
                break
            await asyncio.sleep(pause_s * (1 + secrets.randbelow(1000) / 1000))
            finished = await once()
        if finished.exit_code not in ok or (finished.truncated and limit_bytes is None):
            raise self._failure(args, finished)
        return Answer(finished.exit_code or 0, finished.stdout, finished.stderr)

    def _failure(self, args: tuple[str, ...], finished: Finished) -> GitFailed:
        lines = finished.stderr.decode(errors="replace").strip().splitlines()
        said = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        command = " ".join(("git", *args))
        locked = _LOCKED.search(finished.stderr)
        return GitFailed(
            f"`{command[:200]}` in {self.cwd} {_ending(finished)}: {' | '.join(said[-5:]) or 'it gave no reason'}",
            "remove the lock file if no git command is running there, then try again"
            if locked
            else "run the command by hand in that directory to see more, mend what it names, then try again",
        )


def _worth_repeating(finished: Finished) -> bool:
    if finished.timed_out:
        return False
    return finished.signal is not None or (finished.exit_code != 0 and bool(_LOCKED.search(finished.stderr)))


def _ending(finished: Finished) -> str:
    if finished.timed_out:
        return f"took longer than {finished.duration_s:.0f} s"
    if finished.signal is not None:
        return f"was ended by signal {finished.signal}"
    return f"failed with exit code {finished.exit_code}" if finished.exit_code else "said too much to hold"
