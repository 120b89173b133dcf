"""The programs on this machine: their versions as each says itself, and whether they are logged in."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.executor_settings import ProgramSpec
from scaffold.executors.program_zone import ProgramPlace, credential_folder, find_installed, payer
from scaffold.host.process.command_runner import CommandResult, Containment, run_command

ASK_S = 60.0
"""How long a program may take to say its version: those on Node need seconds, on a busy machine many."""
LoginState = Literal["ok", "missing", "unknown"]
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:-[\w.]+)?")


class InstalledProgram(Struct, frozen=True, kw_only=True):
    """A program that this machine has."""

    spec: ProgramSpec
    path: Path
    """As PATH has it: perhaps a link."""
    version: str
    """Empty if it does not say."""

    @property
    def title(self) -> str:
        """Its name and version, for people."""
        return " ".join(filter(None, (self.spec.name, self.version)))

    @property
    def is_old(self) -> bool:
        """Whether it is older than the oldest version that is known to work."""
        return bool(self.version) and _version_numbers(self.version) < _version_numbers(self.spec.minimum)

    @property
    def identity(self) -> str:
        """A digest that is another one once the program, its version or the way it is started is another."""
        files = [path for path in (self.path, *map(Path, self.spec.command[1:])) if path.is_file()]
        found = [(str(path.resolve()), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
        return hashlib.sha256(msgspec.json.encode((self.spec, self.version, found))).hexdigest()


async def ask_version(spec: ProgramSpec, place: ProgramPlace) -> InstalledProgram:
    """Return the program with the version that it says itself; EnvironmentNotReady if it is not installed."""
    path = find_installed(spec, place)
    said = await _ask_program(spec, path, ("--version",), place)
    # Some greet before they say it, and npm may have installed another one than it lists.
    found = _VERSION.search(said.stdout.decode(errors="replace")) if said.exit_code == 0 else None
    return InstalledProgram(spec=spec, path=path, version=found[0] if found else "")


async def login_state(program: InstalledProgram, place: ProgramPlace) -> LoginState:
    """Return whether it is logged in, as its own command or the file of its login tells, without a request."""
    spec = program.spec
    if payer(spec, place.user_environ):
        return "ok"
    if spec.status:
        match (await _ask_program(spec, program.path, spec.status, place)).exit_code:
            case 0:
                return "ok"
            case 1:
                return "missing"
            case _:
                return "unknown"
    folder = credential_folder(spec, place.user_environ)
    if folder is None or not spec.login_file:
        return "unknown"
    return "ok" if (folder / spec.login_file).is_file() else "missing"


async def _ask_program(spec: ProgramSpec, path: Path, words: Sequence[str], place: ProgramPlace) -> CommandResult:
    # It is the user's own program, from outside of any repository, as if they had typed this.
    argv = (str(path), *spec.command[1:], *words)
    env, contained = place.environ, Containment()
    return await run_command(argv, cwd=Path.home(), env=env, timeout_s=ASK_S, containment=contained)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))
