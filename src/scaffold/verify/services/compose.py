"""Start the containers of one `compose` line fresh for a check, and remove them with their volumes afterwards.

The compose files are read from a checkout of the run's base commit, which the user trusted with the folder. So nothing
that an agent writes decides what is started outside the sandbox.
"""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts import worktree
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import write_atomic
from scaffold.host.process.command_runner import CommandResult, run_command
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.services.specs import ComposeSpec

PROGRAMS = (("docker", "compose"), ("docker-compose",), ("podman", "compose"))
DAEMON_VARIABLES = (
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
)
"""The user's variables that select the container daemon and how to connect to it."""
QUERY_TIMEOUT_S = 30.0
START_TIMEOUT_S = 600.0
"""Includes the time to pull or build images."""
STOP_TIMEOUT_S = 120.0
GRACE_S = "5"
"""Seconds that a container gets to stop."""
LAST_CHARS = 2_000
INSTALL_HINT = (
    "install Docker with its compose plugin, or Podman, so that `docker compose version` works, or change `services`"
)


class ComposeContext(Struct, frozen=True, kw_only=True):
    """The inputs for starting the services of one run's checks."""

    name: str
    """The prefix of the run's project names: lower-case letters, digits, `_` and `-`."""
    repository: Repository
    base: Commit
    """The commit whose compose files are used."""
    folder: Path
    """Where `base` is checked out while the services run; not visible in sandboxes."""
    shared: Path
    """A folder shared by all runs of the user, for port locks and records of running projects."""
    environ: Mapping[str, str]
    """The environment of compose itself, which is the user's, not the environment of checks."""
    clean: Callable[[str], str]
    tell: Callable[[str], None]
    """Shows the user one line about containers that could not be stopped."""


class ComposeProject(Struct, frozen=True, kw_only=True):
    """A started compose project, recorded so that any process can stop it."""

    name: str
    program: tuple[str, ...]
    files: tuple[str, ...]
    folder: str
    ports: tuple[int, ...]

    @property
    def at(self) -> Path | None:
        """The folder of its compose files; None if it no longer exists."""
        folder = Path(self.folder)
        return folder if folder.is_dir() else None

    def argv(self, *words: str) -> tuple[str, ...]:
        """Return the command line of a compose command; works without the files for `down`."""
        # `down` knows the containers by the project's name, but fails at once if a named file is missing.
        files = [word for file in self.files if self.at for word in ("-f", file)]
        return (*self.program, "-p", self.name, *files, *words)


async def find_compose(context: ComposeContext) -> tuple[str, ...] | NotReady:
    """Return the first compose command that works here, with an absolute path; NotReady if none does."""
    for program, *words in PROGRAMS:
        path = shutil.which(program, path=context.environ.get("PATH", ""))
        if path is None:
            continue
        # Absolute, because it is started in another folder.
        found = (str(Path(path).absolute()), *words)  # noqa: ASYNC240 - asks for the working folder only
        if (await _run_compose(context, (*found, "version"), context.repository.root, QUERY_TIMEOUT_S)).exit_code == 0:
            return found
    names = ", ".join(f"`{' '.join(words)}`" for words in PROGRAMS)
    return NotReady(what=f"the services need compose, but none of {names} works on this machine", fix=INSTALL_HINT)


async def start_project(context: ComposeContext, service: ComposeSpec, project: ComposeProject) -> NotReady | None:
    """Start a line's containers and wait until all are running or healthy; return the problem or None."""
    # Recorded before the start: otherwise the containers would outlive this process if it is killed now.
    write_atomic(_record_path(context, project), msgspec.json.encode(project))
    up = project.argv("up", "--detach", "--wait", *service.names)
    ended = await _run_compose(context, up, context.folder, START_TIMEOUT_S)
    return None if ended.exit_code == 0 else _compose_failure(context, "could not be started", up, ended)


async def stop_project(context: ComposeContext, project: ComposeProject) -> NotReady | None:
    """Remove a project's containers, volumes and built images; return the problem or None."""
    down = project.argv("down", "--volumes", "--remove-orphans", "--rmi", "local", "--timeout", GRACE_S)
    ended = await _run_compose(context, down, project.at or context.shared, STOP_TIMEOUT_S)
    if ended.exit_code != 0:
        return _compose_failure(context, "are still running and could not be stopped", down, ended)
    # After the stop, so that a project that could not be stopped stays on record for the next user of its ports.
    _record_path(context, project).unlink(missing_ok=True)
    return None


def still_running_message(project: ComposeProject, problem: NotReady) -> str:
    """Return one line: what could not be stopped, and the commands that stop it later."""
    return f"{problem.what}. Once that works, run `scaffold cleanup` or `{manual_stop_command(project)}`"


def manual_stop_command(project: ComposeProject) -> str:
    """Return the shell command that stops a project, even if its files no longer exist."""
    return shlex.join((*project.program, "-p", project.name, "down", "--volumes", "--remove-orphans"))


def recorded_projects(context: ComposeContext) -> tuple[ComposeProject, ...]:
    """Return all projects that were started and not stopped; a process that holds their ports may be using them."""
    found = []
    for path in sorted(context.shared.glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=ComposeProject))
    return tuple(found)


def projects_of_run(context: ComposeContext) -> tuple[ComposeProject, ...]:
    """Return the recorded projects of this run."""
    return tuple(project for project in recorded_projects(context) if project.name.startswith(f"{context.name}_"))


async def check_out_files(context: ComposeContext) -> NotReady | None:
    """Check out the base into an empty folder; return the problem or None."""
    try:
        await worktree.add(context.repository, context.folder, context.base)
    except (GitError, OSError) as error:
        what = f"services left files in {context.folder} that cannot be removed"
        return NotReady(what=what, fix="delete that folder, and let the services write to volumes", detail=str(error))
    return None


async def remove_checkout(context: ComposeContext) -> None:
    """Remove the checkout; a failure is reported by the next `check_out_files`."""
    with suppress(GitError, OSError):
        await worktree.remove(context.repository, context.folder)


def _record_path(context: ComposeContext, project: ComposeProject) -> Path:
    return context.shared / f"{project.name}.json"


async def _run_compose(context: ComposeContext, argv: Sequence[str], cwd: Path, timeout_s: float) -> CommandResult:
    return await run_command(argv, cwd=cwd, env=context.environ, timeout_s=timeout_s)


def _compose_failure(context: ComposeContext, what: str, argv: Sequence[str], ended: CommandResult) -> NotReady:
    printed = context.clean((ended.stdout + ended.stderr).decode(errors="replace").strip())[-LAST_CHARS:]
    last = printed.splitlines()[-1] if printed else "it printed nothing"
    how = "timed out" if ended.timed_out else f"exited with code {ended.exit_code}"
    words = " ".join((Path(argv[0]).name, *argv[1:]))
    return NotReady(
        what=f"the compose services {what}: `{words}` {how}: {last}",
        fix="check that the daemon is running and that the services become healthy when you start them manually",
        detail=printed,
    )
