"""Parse a line of the setting `services`: a command in the sandbox, or a service outside of it."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

HOST = "host"
SYNTAX = "`compose [-f FILE]... [SERVICE...] @PORT...`, with files of the repository"
MAX_PORT = 65_535

_PORT = re.compile(r"@[0-9]{1,5}")
_ENDING = re.compile(r"(?:(?:^|\s+)@[0-9]{1,5})+\s*$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ComposeSpec(Struct, frozen=True, kw_only=True):
    """Containers from the repository's compose files that publish `ports` on this machine's loopback."""

    files: tuple[str, ...]
    """Compose files relative to the repository; empty for the default names."""
    names: tuple[str, ...]
    """The services to start; empty for all."""
    ports: tuple[int, ...]


class HostPorts(Struct, frozen=True):
    """Services that already listen on `ports` of this machine's loopback."""

    ports: tuple[int, ...]


ExternalService = ComposeSpec | HostPorts


def parse_external(line: str) -> ExternalService | None:
    """Return the service outside the sandbox that a line names; None for a command in the sandbox.

    ValueError, with the expected syntax, for a malformed line.
    """
    kind = line.split(maxsplit=1)[0] if line.strip() else ""
    if kind == "compose":
        return _parse_compose(line)
    words = line.split()[1:]
    if kind == HOST and words and all(_PORT.fullmatch(word) for word in words):
        return HostPorts(_parse_ports(words))
    # Ports at the end need a command before them.
    ending = _ENDING.search(line)
    if ending is not None:
        if not ending.start():
            raise ValueError(f"a list of commands, each before its ports, but `{line}` is not one")
        _parse_ports(ending[0].split())
    return None


def external_services(lines: Sequence[str]) -> tuple[ExternalService, ...]:
    """Return the services outside the sandbox, in order."""
    return tuple(found for line in lines if (found := parse_external(line)) is not None)


def sandbox_commands(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines that are commands in the sandbox, in order."""
    return tuple(line for line in lines if parse_external(line) is None)


def sorted_ports(services: Sequence[ExternalService]) -> tuple[int, ...]:
    """Return all ports, each once, in ascending order: locking them in a fixed order avoids deadlocks."""
    return tuple(sorted({port for service in services for port in service.ports}))


def _parse_compose(line: str) -> ComposeSpec:
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        raise ValueError(f"{SYNTAX}: {error} in `{line}`") from error
    files: list[str] = []
    while words[:1] == ["-f"]:
        files += words[1:2]
        words = words[2:]
    ports = [word for word in words if _PORT.fullmatch(word)]
    names = [word for word in words if word not in ports]
    if not ports or not all(map(_is_repository_path, files)) or not all(map(_NAME.fullmatch, names)):
        raise ValueError(f"{SYNTAX}, but `{line}` does not match")
    return ComposeSpec(files=tuple(files), names=tuple(names), ports=_parse_ports(ports))


def _is_repository_path(file: str) -> bool:
    path = PurePosixPath(file)
    # Compose runs outside the sandbox: a path out of the checkout would be a file that was never approved.
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and not file.startswith("-")


def _parse_ports(words: Sequence[str]) -> tuple[int, ...]:
    ports = tuple(dict.fromkeys(int(word.removeprefix("@")) for word in words))
    if not all(0 < port <= MAX_PORT for port in ports):
        raise ValueError(f"ports from 1 to {MAX_PORT}, not {', '.join(words)}")
    return ports
