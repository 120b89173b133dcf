"""Run git with hooks, file monitors, signing, maintenance and configured programs turned off."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.client.answer_cache import Answers, GitResult
from scaffold.git.client.command_errors import git_failure, is_lock_error, is_system_error
from scaffold.git.client.disabled_programs import (
    HARMLESS_COMMANDS,
    TEXT_MERGE,
    DisabledPrograms,
    Setting,
    disable_programs,
)
from scaffold.git.client.gc_detection import CollectionWatch
from scaffold.host.child_environment import child_environment, path_outside
from scaffold.host.process.command_runner import CommandResult, OutputCapture, run_command

# An agent may run `git config`, so everything that starts a program or makes git overlook a change is set here.
CONFIG_OVERRIDES: tuple[Setting, ...] = (
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.bigFileThreshold", "512m"),
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
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.submodule", "short"),
    ("gc.auto", "0"),
    ("i18n.commitEncoding", "UTF-8"),
    ("index.sparse", "false"),
    ("maintenance.auto", "false"),
    # Treat a union merge as a conflict, so that its result is certified and reported: see `landing.conflicts`.
    ("merge.default", "text"),
    ("merge.union.driver", TEXT_MERGE),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
)
CONFIG_VARIABLES = ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Environment variables that locate the user's git config; no other GIT_* variable is inherited."""
FIXED_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "",  # never fetch, not even the missing objects of a partial clone
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # replace refs are local: other clones see the original objects
    # Otherwise even `git status` would rewrite the index of the user's checkout.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # `command_errors` and `repository` recognise failures by git's English messages.
    "LC_ALL": "C",
}
RETRY_DELAYS_S = (0.05, 0.1, 0.2, 0.4)
"""Delay before each retry; up to doubled at random so that two colliding processes do not retry in step."""
FAULT_DELAYS_S = (0.5, 1.0, 2.0, 4.0)
"""Delay before each retry after the system refused to read or write, or to give memory."""
MAX_MADE = 5
"""How often to recreate objects that a collection deletes."""
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024

GitLocation = tuple[Path | None, str | None]
"""A working directory from which the git directory is discovered, or else a GIT_DIR."""

LIST_CONFIG = ("config", "--list", "--show-origin", "--includes", "-z")
_SUCCESS = frozenset({0})
_NO_VARIABLES: Mapping[str, str] = {}

T = TypeVar("T")


class Git:
    """Git in one directory: `await git("rev-parse", "HEAD")`.

    With `top`, `cwd` is the top of a checkout. Git then never searches parent directories, so a worktree whose `.git`
    was removed is not mistaken for part of an outer repository, and `core.worktree` is ignored.

    With `git_dir`, the registration of one of our worktrees, git ignores the `.git` in it: an agent may have changed
    what that points to, and git obeys the configuration that it finds there.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        environ: Mapping[str, str],
        top: bool = False,
        git_dir: Path | None = None,
        overrides: dict[GitLocation, DisabledPrograms] | None = None,
        answers: Answers | None = None,
        collections: CollectionWatch | None = None,
    ) -> None:
        self.cwd = cwd
        # Agents can write to an activated environment in the checkout, so we never run its `git`.
        self.environ = environ = {**environ, "PATH": path_outside(environ, cwd)}
        """The user's environment, with the PATH for git; commands inherit only a small part of it."""
        configuration = {name: environ[name] for name in CONFIG_VARIABLES if name in environ}
        boundary = {"GIT_CEILING_DIRECTORIES": str(cwd.parent), "GIT_WORK_TREE": str(cwd)} if top else {}
        explicit = {"GIT_DIR": str(git_dir)} if git_dir else {}
        self._env = child_environment(environ, configuration | FIXED_VARIABLES | boundary | explicit)
        self._top = top
        self._git_dir = git_dir
        self._overrides: dict[GitLocation, DisabledPrograms] = {} if overrides is None else overrides
        self.answers = Answers() if answers is None else answers
        """Cached answers about commits."""
        self._collections = CollectionWatch(cwd) if collections is None else collections

    def at(self, path: Path, *, git_dir: Path | None = None) -> "Git":
        """Return a `Git` at the top of another checkout, with the same environment and caches."""
        return Git(
            path,
            environ=self.environ,
            top=True,
            git_dir=git_dir,
            overrides=self._overrides,
            answers=self.answers,
            collections=self._collections,
        )

    @property
    def registration(self) -> Path:
        """The git directory of this worktree, as registered when we created it; GitError for any other checkout."""
        if self._git_dir is None:
            fix = f"remove {self.cwd} if it holds nothing worth keeping, then retry"
            raise GitError(f"{self.cwd} is not a worktree of Scaffold", fix)
        return self._git_dir

    async def __call__(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = 120,
        ok: frozenset[int] = _SUCCESS,
        env: Mapping[str, str] | None = None,
        limit_bytes: int | None = None,
    ) -> GitResult:
        """Run `git ARGS` and return its result; raise GitError if the exit code is not in `ok`.

        A command that was killed by a signal or met a lock is retried, so it must be safe to repeat. Output above
        `limit_bytes` is cut in the middle; without a limit, output above `OUTPUT_LIMIT_BYTES` raises GitError.
        """
        # `config` must be one of the harmless commands: `configuration` runs it itself.
        settings = () if args[0] in HARMLESS_COMMANDS else (await self.configuration(env or {})).settings
        finished = await self._run_with_retries(args, settings, env or {}, timeout_s, stdin, limit_bytes)
        if finished.exit_code not in ok or (finished.truncated and limit_bytes is None):
            raise git_failure(args, self.cwd, finished)
        return GitResult(finished.exit_code or 0, finished.stdout, finished.stderr)

    async def made_whole(self, make: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `make`; retry it if it fails while a collection may have deleted its objects.

        `make` must be safe to repeat. After MAX_MADE attempts its last GitError is raised.
        """
        for _ in range(MAX_MADE - 1):
            try:
                return await make()
            except GitError:
                if not self.met_collection():
                    raise
                await self._collections.end()
        return await make()

    def met_collection(self) -> bool:
        """Return whether the user's `git gc` runs, or has run since `still_has` last found all objects."""
        return self._collections.has_run()

    async def still_has(self, new: Commit, *, known: Commit) -> bool:
        """Return whether all objects of `new` beyond those of `known` exist; call it once a ref points to `new`.

        The user's `git gc` may have deleted objects that were created before the ref.
        """
        if not self.met_collection():
            return True
        mark = await self._collections.end()
        if await self.has_all(new, known=known):
            self._collections.settle(mark)
            return True
        return False

    async def has_all(self, new: Commit, *, known: Commit) -> bool:
        """Return whether all objects of `new` beyond those of `known` exist."""
        found = await self("rev-list", "--objects", "--quiet", new, f"^{known}", ok=frozenset({0, 1, 128}))
        return found.exit_code == 0

    async def read_cached(self, *args: str, commits: Sequence[str], ok: frozenset[int] = _SUCCESS) -> GitResult:
        """Run `git ARGS COMMITS`, or return the cached result. The result must depend on the commits alone.

        Only successes for full commit ids and paths in them are cached, because their contents never change.
        """
        found = self.answers.find((*args, *commits))
        if found is None:
            found = await self(*args, *commits, ok=ok)
            self.answers.keep(args, tuple(commits), found)
        return found

    async def _run_with_retries(
        self,
        args: tuple[str, ...],
        settings: tuple[Setting, ...],
        env: Mapping[str, str],
        timeout_s: float,
        stdin: bytes,
        limit_bytes: int | None,
    ) -> CommandResult:
        # The file system decides about the case of names, whatever the repository's config says.
        folds = "true" if (self.cwd / ".GIT").exists() else "false"
        case = (("core.ignoreCase", folds),) if self._top and (self.cwd / ".git").exists() else ()
        once = partial(
            run_command,
            ("git", *args),
            cwd=self.cwd,
            env=self._env | _config_variables((*CONFIG_OVERRIDES, *case, *settings)) | dict(env),
            timeout_s=timeout_s,
            stdin=stdin,
            output=OutputCapture(limit_bytes=limit_bytes or OUTPUT_LIMIT_BYTES),
        )
        finished = await once()
        for transient, delays_s in ((_is_transient, RETRY_DELAYS_S), (_is_system_fault, FAULT_DELAYS_S)):
            for pause_s in delays_s:
                if not transient(finished):
                    break
                await asyncio.sleep(pause_s * (1 + secrets.randbelow(1000) / 1000))
                finished = await once()
        return finished

    async def configuration(self, env: Mapping[str, str] = _NO_VARIABLES) -> DisabledPrograms:
        """Return the settings here, and what turns off their programs; cached until a config file changes."""
        git_dir = env.get("GIT_DIR", self._env.get("GIT_DIR"))
        # Configuration depends on the git directory alone, so it is not read again for a worktree that has moved.
        location = (None, git_dir) if git_dir else (self.cwd, None)
        cached = self._overrides.get(location)
        if cached is None or not cached.current:
            listed = await self(*LIST_CONFIG, env=env)
            place = Path(git_dir) if git_dir else None
            cached = disable_programs(listed.out, self.cwd, self._env["PATH"], git_dir=place)
            self._overrides[location] = cached
        return cached


def _config_variables(pairs: Sequence[Setting]) -> dict[str, str]:
    # Unlike with `-c`, a name may contain `=`.
    names = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in enumerate(pairs)}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
    return names | values | {"GIT_CONFIG_COUNT": str(len(pairs))}


def _is_system_fault(finished: CommandResult) -> bool:
    return finished.exit_code not in {0, None} and is_system_error(finished.stderr)


def _is_transient(finished: CommandResult) -> bool:
    # A timeout also ends in a signal, but a retry would take just as long.
    if finished.timed_out:
        return False
    return finished.signal is not None or (finished.exit_code != 0 and is_lock_error(finished.stderr))
