"""What a line of the setting `services` asks for: a command in the sandbox, or something outside of it."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

COMPOSE = "compose"
HOST = "host"
FORM = "`compose [-f FILE]... [SERVICE...] @PORT...`, with files of the repository"
HIGHEST_PORT = 65_535

_PORT = re.compile(r"@[0-9]{1,5}")
_ENDING = re.compile(r"(?:(?:^|\s+)@[0-9]{1,5})+\s*$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Compose(Struct, frozen=True, kw_only=True):
    """Containers, as files of the repository describe them, that publish `ports` on this machine's loopback."""

    files: tuple[str, ...]
    """From the top of the repository; none for those that are found by their usual names."""
    names: tuple[str, ...]
    """Of services in them; none for all."""
    ports: tuple[int, ...]


class Listening(Struct, frozen=True):
    """What listens on `ports` of this machine's loopback already, whoever started it."""

    ports: tuple[int, ...]


Outside = Compose | Listening


def outside(line: str) -> Outside | None:
    """Return what a line asks for outside of the sandbox; None for a command that runs in it.

    ValueError, with what was expected, for a line that begins like one of ours and is none.
    """
    kind = line.split(maxsplit=1)[0] if line.strip() else ""
    if kind == COMPOSE:
        return _compose(line)
    words = line.split()[1:]
    if kind == HOST and words and all(_PORT.fullmatch(word) for word in words):
        return Listening(_ports(words))
    _check_ending(line)
    return None


def outside_of(lines: Sequence[str]) -> tuple[Outside, ...]:
    """Return what the lines ask for outside of the sandbox, in order."""
    return tuple(found for line in lines if (found := outside(line)) is not None)


def inside_of(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines that are commands in the sandbox, in order."""
    return tuple(line for line in lines if outside(line) is None)


def ports_of(services: Sequence[Outside]) -> tuple[int, ...]:
    """Return all ports, each once, from low to high: whoever takes them in this order waits for nobody in a circle."""
    return tuple(sorted({port for service in services for port in service.ports}))


def _check_ending(line: str) -> None:
    """Raise ValueError unless what stands before the ports of a command in the sandbox is one, and they are ports."""
    ending = _ENDING.search(line)
    if ending is None:
        return
    if not ending.start():
        raise ValueError(f"a list of commands, each before its ports, and `{line}` is none")
    _ports(ending[0].split())


def _compose(line: str) -> Compose:
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        raise ValueError(f"{FORM}: {error} in `{line}`") from error
    files: list[str] = []
    while words[:1] == ["-f"]:
        files += words[1:2]
        words = words[2:]
    ports = [word for word in words if _PORT.fullmatch(word)]
    names = [word for word in words if word not in ports]
    if not ports or not all(map(_is_inside, files)) or not all(map(_NAME.fullmatch, names)):
        raise ValueError(f"{FORM}, and `{line}` is none")
    return Compose(files=tuple(files), names=tuple(names), ports=_ports(ports))


def _is_inside(file: str) -> bool:
    path = PurePosixPath(file)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and not file.startswith("-")


def _ports(words: Sequence[str]) -> tuple[int, ...]:
    ports = tuple(dict.fromkeys(int(word.removeprefix("@")) for word in words))
    if not all(0 < port <= HIGHEST_PORT for port in ports):
        raise ValueError(f"ports from 1 to {HIGHEST_PORT}, and {', '.join(words)} is none")
    return ports
