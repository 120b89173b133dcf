"""Containers of one line of `compose`: begun new for a check, and taken down with all that they kept.

The files that describe them, and what those name, are read in a checkout of the commit that a run starts from: who
trusts the folder has trusted that, and nothing an agent writes decides what is started outside of a sandbox.
"""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.git import worktree
from scaffold.git.repository import Repository
from scaffold.host.files import write_atomic
from scaffold.host.process import Finished, run
from scaffold.verify.readiness import NotReady
from scaffold.verify.services.lines import Compose

PROGRAMS = (("docker", "compose"), ("docker-compose",), ("podman", "compose"))
DAEMON = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST")
"""Variables of the user's that say which daemon is spoken to, and how."""
ASK_S = 30.0
UP_S = 600.0
"""For as long as it may take to fetch or build images, too."""
DOWN_S = 120.0
GRACE_S = "5"
"""What a container may take to end."""
LAST_CHARS = 2_000
INSTALL = (
    "install Docker with its compose plugin, or Podman, so that `docker compose version` works, or change `services`"
)


class Outfit(Struct, frozen=True, kw_only=True):
    """What services outside are started with, for the checks of one run."""

    name: str
    """What the names of its projects begin with: of small letters, digits, `_` and `-`."""
    repository: Repository
    base: Commit
    """What describes the services."""
    folder: Path
    """Where that is checked out while they run; nobody in a sandbox sees it."""
    shared: Path
    """A folder for what all runs of the user know of each other: locked ports, and what is up."""
    environ: Mapping[str, str]
    """The environment of what starts them: the user's, not that of checks."""
    clean: Callable[[str], str]
    tell: Callable[[str], None]
    """Takes a line that the user should read: what is still running although no check needs it."""


class Stack(Struct, frozen=True, kw_only=True):
    """What was brought up, as it is noted for whoever has to take it down."""

    name: str
    program: tuple[str, ...]
    files: tuple[str, ...]
    folder: str
    ports: tuple[int, ...]

    @property
    def at(self) -> Path | None:
        """Where its files are; None if they are gone."""
        folder = Path(self.folder)
        return folder if folder.is_dir() else None

    def argv(self, *words: str) -> tuple[str, ...]:
        """Return what to start for one command of compose; a project can be taken down without its files."""
        files = [word for file in self.files if self.at for word in ("-f", file)]
        return (*self.program, "-p", self.name, *files, *words)


async def program(means: Outfit) -> tuple[str, ...] | NotReady:
    """Return the first compose that works here, by its absolute path."""
    for found in filter(None, (_found(words, means.environ) for words in PROGRAMS)):
        if (await _asked(means, (*found, "version"), means.repository.root, ASK_S)).exit_code == 0:
            return found
    names = ", ".join(f"`{' '.join(words)}`" for words in PROGRAMS)
    return NotReady(what=f"the services are started by compose, and none of {names} works here", fix=INSTALL)


async def brought_up(means: Outfit, service: Compose, project: Stack) -> NotReady | None:
    """Start a line's containers, and return why that cannot be done; None once all are healthy, or run."""
    write_atomic(_note(means, project), msgspec.json.encode(project))
    up = project.argv("up", "--detach", "--wait", *service.names)
    ended = await _asked(means, up, means.folder, UP_S)
    return None if ended.exit_code == 0 else _told(means, "could not be started", up, ended)


async def taken_down(means: Outfit, project: Stack) -> NotReady | None:
    """End a project with its volumes and the images it built; return why that cannot be done."""
    down = project.argv("down", "--volumes", "--remove-orphans", "--rmi", "local", "--timeout", GRACE_S)
    ended = await _asked(means, down, project.at or means.shared, DOWN_S)
    if ended.exit_code != 0:
        return _told(means, "are still there, and could not be taken down", down, ended)
    _note(means, project).unlink(missing_ok=True)
    return None


def left_running(project: Stack, trouble: NotReady) -> str:
    """Return in one line what could not be taken down, and what takes it down once that is mended."""
    return f"{trouble.what}. Once that works, `scaffold cleanup` takes them down, or `{by_hand(project)}`"


def by_hand(project: Stack) -> str:
    """Return the shell command that takes a project down, also once its files are gone."""
    return shlex.join((*project.program, "-p", project.name, "down", "--volumes", "--remove-orphans"))


def noted(means: Outfit) -> tuple[Stack, ...]:
    """Return what somebody has brought up and nobody has taken down; it may be in use by who holds its ports."""
    found = []
    for path in sorted(means.shared.glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Stack))
    return tuple(found)


def noted_for(means: Outfit) -> tuple[Stack, ...]:
    """Return which of these are of this run."""
    return tuple(project for project in noted(means) if project.name.startswith(f"{means.name}_"))


async def checked_out(means: Outfit) -> NotReady | None:
    """Check out what describes the services, as if nothing had ever been there; return why that cannot be done."""
    try:
        await worktree.add(means.repository, means.folder, means.base)
    except (GitFailed, OSError) as error:
        what = f"services have left something in {means.folder} that cannot be removed"
        return NotReady(what=what, fix="delete that folder, and have them write to volumes instead", detail=str(error))
    return None


async def removed(means: Outfit) -> None:
    """Remove that checkout; what cannot be removed stays, and is told when it is next needed."""
    with suppress(GitFailed, OSError):
        await worktree.remove(means.repository, means.folder)


def _found(words: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the words with the program as it is found now: it is started from elsewhere."""
    path = shutil.which(words[0], path=environ.get("PATH", ""))
    return (str(Path(path).absolute()), *words[1:]) if path else None


def _note(means: Outfit, project: Stack) -> Path:
    return means.shared / f"{project.name}.json"


async def _asked(means: Outfit, argv: Sequence[str], cwd: Path, timeout_s: float) -> Finished:
    return await run(argv, cwd=cwd, env=means.environ, timeout_s=timeout_s)


def _told(means: Outfit, what: str, argv: Sequence[str], ended: Finished) -> NotReady:
    printed = means.clean((ended.stdout + ended.stderr).decode(errors="replace").strip())[-LAST_CHARS:]
    last = printed.splitlines()[-1] if printed else "it printed nothing"
    how = "was not finished in time" if ended.timed_out else f"ended with exit {ended.exit_code}"
    words = " ".join((Path(argv[0]).name, *argv[1:]))
    return NotReady(
        what=f"the services of compose {what}: `{words}` {how}: {last}",
        fix="see that the daemon runs and the services get healthy when you start them yourself",
        detail=printed,
    )
