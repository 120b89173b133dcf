"""Build the command line that runs a command in its sandbox, for every level."""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, assert_never

from msgspec import Struct, structs

from scaffold.host.child_environment import loads_code
from scaffold.host.sandbox import bubblewrap, relay, seatbelt
from scaffold.host.sandbox.bubblewrap import open_sources
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.mounts import plan_mounts
from scaffold.host.sandbox.seccomp import program
from scaffold.host.startup import importing

TABLE = Path("/proc/net/unix")

PATH_FIELD = 7


LEVEL_VARIABLE = "SCAFFOLD_SANDBOX"
"""Contains the sandbox level, for programs inside the sandbox."""


NO_RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}
"""Without a network npm would try for 70 s before it fails, pip for 10."""


class Descriptor(Protocol):
    """An open descriptor that can be closed more than once."""

    def fileno(self) -> int:
        """Return its number."""

    def close(self) -> None:
        """Close it."""


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """The process to start, with its environment and descriptors; the reaper must guard the paths `held`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    passed: tuple[Descriptor, ...] = ()
    held: tuple[Path, ...] = ()
    status: BinaryIO | None = None
    """The pipe with bubblewrap's report; None at other levels."""

    def hand_over(self) -> None:
        """Close our copies of the passed descriptors, after the start."""
        for end in self.passed:
            end.close()

    def code(self, raw: int) -> int:
        """Return the command's exit code, or negated signal, for the exit code `raw` of the started process.

        OSError if the sandbox could not be set up.
        """
        return bubblewrap.exit_code(raw, self.status.read()) if self.status else raw


@contextlib.contextmanager
def prepare_launch(
    sandbox: SandboxSpec, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> Iterator[LaunchSpec]:
    """Prepare the sandbox for one command; OSError on failure. Start the command inside the block."""
    confined = sandbox.confinement
    env = {**env, **temporary_variables(confined.temporary), LEVEL_VARIABLE: sandbox.level}
    env |= {name: str(path) for name, path in sandbox.variables.items()}
    env |= NO_RETRIES if confined.network in {"none", "loopback"} else {}
    if sandbox.port:
        env |= relay.proxy_variables(sandbox.port)
    # What starts the sandbox must not get the variables that make a program load code, as that may be in a folder which
    # an agent writes; they are set inside.
    set_inside = [f"{name}={value}" for name, value in env.items() if loads_code(name)]
    if set_inside and "=" not in argv[0]:
        argv = (str(bubblewrap.ENV_PROGRAM), *set_inside, *argv)
    env = {name: value for name, value in env.items() if not loads_code(name)}
    match sandbox.level:
        case "bubblewrap":
            confinement, proxy, command = sandbox.confinement, sandbox.proxy, argv
            if confinement.network == "hosts" and proxy is not None:
                shown, sockets = (*confinement.readable, proxy), (*confinement.sockets, proxy)
                confinement = structs.replace(confinement, readable=shown, sockets=sockets)
                command = relay.argv(proxy, argv)
            installed = (Path(sandbox.program),) if sandbox.program else bubblewrap.programs()
            if not installed:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "bwrap")
            with _wrap_command(installed[0], confinement, command, cwd, env) as launch:
                yield launch
        case "landlock":
            with importing():
                from scaffold.host.sandbox.landlock import sandboxed_command as landlock
            ports = filter(None, (*confined.ports, sandbox.port))
            confinement = structs.replace(confined, ports=tuple(ports))
            yield LaunchSpec(argv=landlock.argv(confinement, argv), env=env)
        case "seatbelt":
            yield LaunchSpec(argv=seatbelt.argv(confined, argv, sandbox.port), env=env)
        case "none":
            yield LaunchSpec(argv=tuple(argv), env=env)
        case never:
            assert_never(never)


def temporary_variables(temporary: Path) -> dict[str, str]:
    """Return variables that point a command to `temporary` and the cache in it; create what is missing."""
    cache = temporary / "cache"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # an earlier command may have created it
        cache.mkdir(mode=0o700)
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary)) | {
        "XDG_CACHE_HOME": str(cache),
        "npm_config_cache": str(cache / "npm"),
    }


@contextlib.contextmanager
def _wrap_command(
    wrapper: Path, confinement: Confinement, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> Iterator[LaunchSpec]:
    plan = plan_mounts(without_foreign_sockets(confinement))
    with contextlib.ExitStack() as stack:
        reading, writing = os.pipe()
        status, report = stack.enter_context(os.fdopen(reading, "rb")), stack.enter_context(os.fdopen(writing, "wb"))
        filters = stack.enter_context(os.fdopen(os.memfd_create("seccomp"), "wb", buffering=0))
        filters.write(program(confinement.network))
        filters.seek(0)
        sources = open_sources(plan, (*confinement.writable, confinement.temporary), stack)
        wrapped = bubblewrap.argv(
            wrapper,
            plan.mounts,
            argv,
            cwd=cwd.resolve(),
            network=confinement.network,
            descriptors=bubblewrap.Descriptors(
                {path: source.fileno() for path, source in sources.items()}, filters.fileno(), report.fileno()
            ),
        )
        passed: tuple[Descriptor, ...] = (filters, report, *sources.values())
        yield LaunchSpec(argv=wrapped, env=env, passed=passed, held=plan.held, status=status)


def without_foreign_sockets(confinement: Confinement) -> Confinement:
    """Return the confinement with the Unix sockets hidden that exist now outside of its writable folders."""
    own = (*confinement.writable, confinement.temporary, *confinement.sockets)
    lines: list[bytes] = []
    with contextlib.suppress(OSError):  # not Linux: nothing is known of the sockets of others
        lines = TABLE.read_bytes().splitlines()[1:]
    fields = (line.split(None, PATH_FIELD) for line in lines)
    # Other names are those of abstract sockets.
    named = {words[PATH_FIELD] for words in fields if len(words) > PATH_FIELD and words[PATH_FIELD].startswith(b"/")}
    bound = (Path(name.decode(errors="surrogateescape")) for name in sorted(named))
    foreign = (path for path in bound if not any(path.is_relative_to(folder) for folder in own))
    return structs.replace(confinement, hidden=tuple(dict.fromkeys((*confinement.hidden, *foreign))))
