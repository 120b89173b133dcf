"""The command of a server's program: its environment, and a sandbox with a network rule of its own."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs

from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.host.child_environment import PROXIES, child_environment
from scaffold.host.process.piped_process import PipedCommand
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.command_sandbox import with_egress


class ServerPlace(Struct, frozen=True, kw_only=True):
    """Where the programs of servers run."""

    cwd: Path
    environ: Mapping[str, str]
    """Ours; a program gets the few variables of it that hold no secrets, and those that its entry names."""
    sandbox: SandboxSpec | None
    """That of commands; None for none."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""


@asynccontextmanager
async def server_command(config: ServerConfig, place: ServerPlace) -> AsyncIterator[PipedCommand]:
    """Yield the command of an expanded server; its way to named hosts lasts as long as the block."""
    environ = dict(child_environment(place.environ))
    if config.network != "hosts":
        # The address of a proxy may contain a password.
        environ = {name: value for name, value in environ.items() if name.lower() not in PROXIES}
    async with with_egress(_sandbox(config, place)) as sandbox:
        yield PipedCommand(
            argv=(_program(config.command), *config.args),
            cwd=place.cwd,
            env={**environ, **config.env},
            sandbox=sandbox,
        )


def _program(command: str) -> str:
    return os.path.expanduser(command)  # noqa: PTH111 - a name on PATH stays as it is


def _sandbox(config: ServerConfig, place: ServerPlace) -> SandboxSpec | None:
    if place.sandbox is None:
        return None
    zone = place.sandbox.confinement
    writable = (*(zone.writable if place.writes else ()), *_folders(config.writes))
    readable = (*zone.readable, *_folders(config.reads), *(() if place.writes else zone.writable))
    zone = structs.replace(
        zone, writable=writable, readable=readable, network=config.network, hosts=config.hosts, sockets=()
    )
    return structs.replace(place.sandbox, confinement=zone, proxy=None)


def _folders(names: tuple[str, ...]) -> tuple[Path, ...]:
    paths = (Path(name).expanduser() for name in names)
    return tuple(path.resolve() for path in paths if path.is_absolute() and path.exists())
