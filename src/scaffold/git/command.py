"""The git command: one way to call it, with hooks, monitors, signing, upkeep and other people's programs off."""

import asyncio
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from scaffold.git.failure import explain, locked
from scaffold.git.programs import HARMLESS, Setting, Silenced, silence
from scaffold.git.registration import common_dir, modules, pointed_at
from scaffold.host.environment import child_environment
from scaffold.host.process import Finished, run

SETTINGS: tuple[Setting, ...] = (
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.checkStat", "default"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.packedRefsTimeout", "200"),
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),
    ("core.sparseCheckout", "false"),
    ("core.splitIndex", "false"),
    ("core.trustctime", "true"),
    ("core.untrackedCache", "false"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("i18n.commitEncoding", "UTF-8"),
    ("index.sparse", "false"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
)
CONFIGURATION = ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables that say where the user's own settings are; no other GIT_* is inherited."""
SURROUNDINGS = {
    "GIT_ALLOW_PROTOCOL": "",  # nothing is fetched, a partial clone's missing objects neither
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # what lands is what others will see
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Before each repetition; up to twice as long, so that two that met do not meet again."""
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024
MOST_RECALLED = 8
"""So many answers about commits are kept, the latest ones."""
LARGEST_RECALLED_BYTES = 2 * 1024 * 1024

Place = tuple[Path, str | None]
"""A directory, and the git directory where that is not the one found from there."""

LIST = ("config", "--list", "--show-origin", "--includes", "-z")
_SUCCESS = frozenset({0})
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


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
    must not become a part of whatever repository its parents are in; and its files are those around it, whatever
    `core.worktree` says.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        environ: Mapping[str, str],
        top: bool = False,
        silenced: dict[Place, Silenced] | None = None,
        recalled: dict[tuple[str, ...], Answer] | None = None,
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        """What the user gave us; commands see little of it."""
        configuration = {name: environ[name] for name in CONFIGURATION if name in environ}
        here = {"GIT_CEILING_DIRECTORIES": str(cwd.parent), "GIT_WORK_TREE": str(cwd)} if top else {}
        self._env = child_environment(environ, configuration | SURROUNDINGS | here)
        self._top = top
        self._silenced: dict[Place, Silenced] = {} if silenced is None else silenced
        self._recalled: dict[tuple[str, ...], Answer] = {} if recalled is None else recalled

    def at(self, path: Path) -> "Git":
        """Return the same git at the top of another checkout."""
        return Git(path, environ=self.environ, top=True, silenced=self._silenced, recalled=self._recalled)

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
        settings = () if args[0] in HARMLESS else await self._silence(env or {})
        finished = await self._repeated(args, settings, env or {}, timeout_s, stdin, limit_bytes)
        if finished.exit_code not in ok or (finished.truncated and limit_bytes is None):
            raise explain(args, self.cwd, finished)
        return Answer(finished.exit_code or 0, finished.stdout, finished.stderr)

    async def about(self, *args: str, commits: Sequence[str]) -> Answer:
        """Run `git ARGS COMMITS` for what is in commits and in nothing else; what was asked just before is recalled.

        That is for whole ids alone, as nothing in them ever changes; other names are asked for again.
        """
        asked = (*args, *commits)
        answer = self._recalled.pop(asked, None) or await self(*asked)
        if all(map(_ID.fullmatch, commits)) and len(answer.out) <= LARGEST_RECALLED_BYTES:
            self._recalled[asked] = answer
            for oldest in [*self._recalled][:-MOST_RECALLED]:
                del self._recalled[oldest]
        return answer

    async def _repeated(
        self,
        args: tuple[str, ...],
        settings: tuple[Setting, ...],
        env: Mapping[str, str],
        timeout_s: float,
        stdin: bytes,
        limit_bytes: int | None,
    ) -> Finished:
        once = partial(
            run,
            ("git", *args),
            cwd=self.cwd,
            env=self._env | _as_variables((*SETTINGS, *self._by_place(), *settings)) | dict(env),
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
        return finished

    def _by_place(self) -> tuple[Setting, ...]:
        """Ask the file system, not the settings, whether names that differ in case only are one name."""
        if not self._top or not (self.cwd / ".git").exists():
            return ()
        return (("core.ignoreCase", "true" if (self.cwd / ".GIT").exists() else "false"),)

    def _modules(self) -> Iterator[Path]:
        """Name the repositories whose settings count, too, where git looks into submodules by itself."""
        private = pointed_at(self.cwd) or self.cwd / ".git"
        shared = common_dir(private) if (private / "commondir").is_file() else private
        return modules(shared / "modules")

    async def _silence(self, env: Mapping[str, str]) -> tuple[Setting, ...]:
        """Return what turns off the programs that are configured here; read again whenever settings change."""
        place = (self.cwd, env.get("GIT_DIR"))
        known = self._silenced.get(place)
        if known is None or not known.current:
            listed = [await self(*LIST, env=env)]
            listed += [await self(*LIST, "--file", str(module / "config")) for module in self._modules()]
            known = silence(b"".join(answer.out for answer in listed), self.cwd, self._env["PATH"])
            self._silenced[place] = known
        return known.settings


def _as_variables(settings: Iterable[Setting]) -> dict[str, str]:
    """Return the settings as git takes them from the environment, where a name may hold anything."""
    pairs = tuple(settings)
    names = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in enumerate(pairs)}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
    return names | values | {"GIT_CONFIG_COUNT": str(len(pairs))}


def _worth_repeating(finished: Finished) -> bool:
    if finished.timed_out:
        return False
    return finished.signal is not None or (finished.exit_code != 0 and locked(finished.stderr))
