"""Where a program of others runs: its sandbox with a way to its provider, its own folder, and its environment."""

import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from scaffold.core.errors import EnvironmentNotReady, TrustError
from scaffold.core.executor_settings import ProgramSpec
from scaffold.host.child_environment import path_outside
from scaffold.host.process.piped_process import PipedCommand
from scaffold.host.sandbox.confinement import Level, SandboxSpec
from scaffold.host.sandbox.sidecar import with_services
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.verify.environment.setup_network import SetupNetwork, hosts_in, with_setup_network

PACKAGES = "node_modules"
NO_REMOTES = {"GIT_ALLOW_PROTOCOL": "file", "GIT_TERMINAL_PROMPT": "0"}
"""Git refuses each remote elsewhere: work leaves a worktree by landing alone."""
OBEYED = (
    *("settings.json", "settings.local.json", "config.toml", "models.json", "mcp-config.json", "hooks.json", ".env"),
    *("hooks", "plugins", "agents", "commands", "skills", "rules", "prompts", "policies", "extensions", "bin"),
    *("CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md", "SYSTEM.md", "copilot-instructions.md"),
)
"""What programs run or obey in their folders: what a turn wrote there would act outside of any sandbox, later."""

HOLDING: tuple[Level, ...] = ("bubblewrap", "seatbelt")
"""Levels that hide and protect files in the program's folder. Landlock could only by letting nothing be renamed beside
them, which is how logins are renewed."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class ProgramPlace(Struct, frozen=True, kw_only=True):
    """Where a turn is taken."""

    root: Path
    """The worktree, or a folder of its own."""
    environ: Mapping[str, str]
    """The variables of commands there."""
    user_environ: Mapping[str, str]
    """The user's, from which the program gets those that its specification names."""
    sandbox: SandboxSpec | None
    """Confines commands there; without one (None) the program has all rights of the user."""


@asynccontextmanager
async def program_command(spec: ProgramSpec, place: ProgramPlace) -> AsyncIterator[PipedCommand]:
    """Yield the command of a program, without the arguments of its protocol; its way to its provider ends with it.

    Its own commands are in the same zone: in its worktree, its folder, and the way to its provider. Raises
    EnvironmentNotReady if it is not installed, TrustError if it may act without a question.
    """
    program = find_installed(spec, place)
    require_questions(spec, place.user_environ, None if place.sandbox is None else place.sandbox.level)
    folder = credential_folder(spec, place.user_environ)
    environ = _program_environ(spec, place, folder)
    named = hosts_in("\n".join(environ[name] for name in spec.env if name in environ))
    sandbox = None if place.sandbox is None else _program_sandbox(place.sandbox, spec, program, folder)
    also = sandbox.confinement.hosts if sandbox and sandbox.confinement.network == "hosts" else ()
    network = SetupNetwork(hosts=tuple(dict.fromkeys((*spec.hosts, *named, *also))), only=True)
    async with with_setup_network(sandbox, network, place.user_environ) as (confined, sockets):
        argv = with_services((), (str(program), *spec.command[1:]), top=place.root, socket_folder=sockets)
        yield PipedCommand(argv=argv, cwd=place.root, env=environ, sandbox=confined)


def find_installed(spec: ProgramSpec, place: ProgramPlace) -> Path:
    """Return the program's file, never one that an agent may have written; EnvironmentNotReady if there is none."""
    path = path_outside(place.user_environ, place.root)
    found = shutil.which(os.path.expanduser(spec.command[0]), path=path)  # noqa: PTH111 - a name on PATH stays as it is
    if found is None:
        what = f"the executor {spec.name} is not installed: there is no program `{spec.command[0]}`"
        raise EnvironmentNotReady(what, "Install it, or choose another with `--executor`")
    return Path(found).absolute()


def credential_folder(spec: ProgramSpec, environ: Mapping[str, str]) -> Path | None:
    """Return the folder with the program's login, without links; None if it has none."""
    named = environ.get(spec.home_variable, "") if spec.home_variable else ""
    if not (named or spec.credentials):
        return None
    folder, home = Path(named or spec.credentials).expanduser().resolve(), Path.home().resolve()
    if home.is_relative_to(folder):
        what = f"the folder {folder} of the executor {spec.name} has more in it than its login"
        raise TrustError(what, f"Name its own folder in `executors.{spec.name}.credentials`.")
    return folder


def standing_permissions(spec: ProgramSpec, environ: Mapping[str, str], level: Level | None) -> list[str]:
    """Return what lets the program act without a question: files of the user's, and settings as `FILE: KEY`.

    At this `level` of the sandbox; None: without one. What is hidden from it there does not count.
    """
    if (folder := credential_folder(spec, environ)) is None:
        return []
    found = []
    for grant in spec.grants:
        name, _, keys = grant.partition(":")
        path = folder / name
        if keys and path.is_file() and _has_setting(path, keys.split(".")):
            found.append(f"{path}: {keys}")
        elif not keys and level not in HOLDING and (any(path.iterdir()) if path.is_dir() else path.is_file()):
            found.append(str(path))
    return found


def require_questions(spec: ProgramSpec, environ: Mapping[str, str], level: Level | None) -> None:
    """Raise TrustError if the program may act without a question: see `standing_permissions`."""
    if found := standing_permissions(spec, environ, level):
        raise TrustError(f"{spec.name} would not ask about what is allowed in {', '.join(found)}", unasked_fix(spec))


def unasked_fix(spec: ProgramSpec) -> str:
    """Return what to do about standing permissions."""
    return f"Remove it there, or log in to a folder of its own and name that in `executors.{spec.name}.credentials`."


def payer(spec: ProgramSpec, environ: Mapping[str, str]) -> str:
    """Return the variable with the key by which turns are paid; empty: by the login of the program."""
    return next((name for name in spec.keys if name in spec.env and environ.get(name)), "")


def _program_environ(spec: ProgramSpec, place: ProgramPlace, folder: Path | None) -> dict[str, str]:
    dropped = {*spec.keys} - {*spec.env}
    environ = {name: value for name, value in place.environ.items() if name not in dropped}
    environ |= {name: place.user_environ[name] for name in spec.env if name in place.user_environ}
    if spec.home_variable and folder is not None:
        environ[spec.home_variable] = str(folder)
    return environ | dict(spec.variables) | NO_REMOTES


def _program_sandbox(sandbox: SandboxSpec, spec: ProgramSpec, program: Path, folder: Path | None) -> SandboxSpec:
    zone = sandbox.confinement
    shown = tuple(_program_files(program, Path.home().resolve()))
    zone = structs.replace(zone, readable=(*zone.readable, *shown), scratch=True)
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_held = sandbox.level in HOLDING
        grants = {folder / name for name in spec.grants if is_held and ":" not in name}
        obeyed = {folder / name for name in OBEYED if is_held} - grants
        zone = structs.replace(
            zone,
            writable=(*zone.writable, folder),
            # A missing one is not held: the user's own program would find a placeholder there.
            hidden=(*(path for path in zone.hidden if not path.is_relative_to(folder)), *_existing(grants)),
            protected=(*zone.protected, *_existing(obeyed)),
        )
    return structs.replace(sandbox, confinement=zone)


def _has_setting(path: Path, keys: Sequence[str]) -> bool:
    """Return whether a file of JSON with comments sets this; True if it cannot be read."""
    try:
        values: list[Any] = [msgspec.json.decode(_COMMENT.sub(r"\1", path.read_text("utf-8-sig")))]
    except (OSError, ValueError):
        return True
    for key in keys:
        objects = [value for value in values if isinstance(value, dict)]
        values = [value for each in objects for name, value in each.items() if key in {"*", name}]
    return any(values)


def _existing(paths: Iterable[Path]) -> list[Path]:
    return sorted(filter(os.path.lexists, paths))


def _program_files(program: Path, home: Path) -> Iterator[Path]:
    """Yield what the program is started from: its link, its installation, and the packages around it."""
    real = program.resolve()
    packages = next((each for each in real.parents if each.name == PACKAGES), real.parent)
    for path in (program, packages):
        if not secret_entry(str(path)) and not home.is_relative_to(path):
            yield path
