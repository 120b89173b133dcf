"""Golden environments: what set-up commands install, made once for the same locks on the same machine, copied often."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from scaffold.core.gates import CheckEnvironment, Copied
from scaffold.core.ids import Commit
from scaffold.git import worktree
from scaffold.git.command import Git
from scaffold.git.repository import Repository
from scaffold.host.copying import copy_tree
from scaffold.host.files import FileLock, write_atomic
from scaffold.host.process import Finished, run
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.verify.contract import DETAIL_CHARS
from scaffold.verify.environment.dependencies import MODULES, VENV, installed_in, program_of
from scaffold.verify.environment.furnishing import WORKSHOP
from scaffold.verify.environment.surroundings import TOP, check_environ
from scaffold.verify.readiness import NotReady

SETUP_TIMEOUT_S = 1_800.0
LOCK_TIMEOUT_S = 7_200.0
LAST_LINE_CHARS = 200
RECORD = "made.json"
UNUSED_S = 30 * 86_400.0
"""An environment that was not asked for so long is forgotten when another one is made."""
RESOLVER = Path("/etc/resolv.conf")
INSTALLING = {
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_package_import_method": "copy",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "POETRY_VIRTUALENVS_IN_PROJECT": "true",
    "UV_COMPILE_BYTECODE": "1",
    "UV_LINK_MODE": "copy",
}
"""Everything into the checkout, without questions, and nothing shared with the installer's own cache."""

Enclose = Callable[[Path], AbstractAsyncContextManager[Enclosure | None]]
"""Yields what holds commands in a checkout."""


class Foundry(Struct, frozen=True, kw_only=True):
    """Where golden environments are made."""

    repository: Repository
    folder: Path
    """Of the golden environment: all of it lies in there."""
    base: Commit
    environ: Mapping[str, str]
    enclose: Enclose
    clean: Callable[[str], str]
    tell: Callable[[str], None]
    """Hears of each command before it runs."""


class Made(Struct, frozen=True):
    """What lies in a golden environment; written last of all."""

    made_for: str
    targets: tuple[str, ...]


async def golden(foundry: Foundry, commands: tuple[str, ...]) -> CheckEnvironment | NotReady:
    """Return what the commands install, from an earlier time if there was one; the fingerprint is left empty."""
    async with FileLock(foundry.folder.with_name(f"{foundry.folder.name}.lock"), timeout_s=LOCK_TIMEOUT_S):
        made = _recall(foundry.folder) or await _make(foundry, commands)
    return made if isinstance(made, NotReady) else _environment(foundry.folder, made, commands)


async def snapshot(folder: Path, root: Path, targets: tuple[str, ...]) -> CheckEnvironment:
    """Return a copy of what the user has installed in the checkout `root`, as it was when it was first asked for."""
    async with FileLock(folder.with_name(f"{folder.name}.lock"), timeout_s=LOCK_TIMEOUT_S):
        made = _recall(folder)
        if made is None:
            worktree.delete(folder)
            for target in targets:
                place = folder / "files" / target
                place.parent.mkdir(parents=True, exist_ok=True)
                await copy_tree(root / target, place)
            made = _finish(folder, Made(str(root), targets))
    return _environment(folder, made, ())


def _recall(folder: Path) -> Made | None:
    record = folder / RECORD
    try:
        made = msgspec.json.decode(record.read_bytes(), type=Made)
        os.utime(record)
    except (OSError, msgspec.MsgspecError):
        return None
    return made


def _forget_unused(newest: Path) -> None:
    """Delete the environments beside the newest that nobody has asked for in a long time before it was made."""
    now = (newest / RECORD).stat().st_mtime
    for record in newest.parent.glob(f"*/{RECORD}"):
        if now - record.stat().st_mtime > UNUSED_S:
            worktree.delete(record.parent)
    for left in newest.parent.glob(f"{WORKSHOP}/*"):
        if now - left.lstat().st_mtime > UNUSED_S:
            worktree.delete(left)


def _finish(folder: Path, made: Made) -> Made:
    write_atomic(folder / RECORD, msgspec.json.encode(made))
    return made


async def _make(foundry: Foundry, commands: tuple[str, ...]) -> Made | NotReady:
    """Run the commands in a checkout of their own and keep what they installed there."""
    worktree.delete(foundry.folder)
    checkout = foundry.folder.with_name(f"{foundry.folder.name}.checkout")
    git = await worktree.add(foundry.repository, checkout, foundry.base)
    try:
        if trouble := await _set_up(foundry, git, commands):
            return trouble
        targets = await installed_in(git, ignored=False)
        for target in targets:
            place = foundry.folder / "files" / target
            place.parent.mkdir(parents=True, exist_ok=True)
            (checkout / target).rename(place)
        worktree.delete(foundry.folder / "store")
        made = _finish(foundry.folder, Made(str(checkout), targets))
        await asyncio.to_thread(_forget_unused, foundry.folder)
        return made
    finally:
        await worktree.remove(foundry.repository, checkout)


async def _set_up(foundry: Foundry, git: Git, commands: tuple[str, ...]) -> NotReady | None:
    foundry.folder.mkdir(parents=True)
    environ = check_environ(_while_installing(foundry.folder), git.cwd, foundry.environ)
    async with foundry.enclose(git.cwd) as walls:
        for command in commands:
            foundry.tell(command)
            finished = await run(
                ["/bin/sh", "-c", command],
                cwd=git.cwd,
                env=environ,
                timeout_s=SETUP_TIMEOUT_S,
                leash=True,
                enclosure=_opened(walls, foundry.folder),
            )
            if finished.exit_code != 0:
                return _failed(command, finished, foundry.clean)
    return None


def _opened(walls: Enclosure | None, folder: Path) -> Enclosure | None:
    """Return walls with the internet outside, as installers need it, and with `folder` to write to."""
    if walls is None:
        return None
    confinement = structs.replace(
        walls.confinement,
        network="open",
        writable=(*walls.confinement.writable, folder.resolve()),
        shown=(*walls.confinement.shown, RESOLVER.resolve()),
    )
    return structs.replace(walls, confinement=confinement, proxy=None)


def _while_installing(folder: Path) -> CheckEnvironment:
    store = {"npm_config_store_dir": str(folder / "store"), "UV_PYTHON_INSTALL_DIR": str(folder / "python")}
    return CheckEnvironment(
        fingerprint="",
        path=(f"{TOP}/{VENV}/bin", f"{TOP}/{MODULES}/.bin"),
        variables={**INSTALLING, **store, **_caches(folder), "GOFLAGS": "-modcacherw"},
    )


def _environment(folder: Path, made: Made, commands: tuple[str, ...]) -> CheckEnvironment:
    copies = tuple(
        Copied(source=str(folder / "files" / target), target=target, made_for=made.made_for) for target in made.targets
    )
    programs = {VENV: f"{TOP}/{VENV}/bin", MODULES: f"{TOP}/{MODULES}/.bin"}
    return CheckEnvironment(
        fingerprint="",
        path=tuple(programs[target] for target in made.targets if target in programs),
        variables=_for_checks(folder, made, commands),
        copies=copies,
        shown=(str(folder),),
    )


def _for_checks(folder: Path, made: Made, commands: tuple[str, ...]) -> dict[str, str]:
    """Return what has tools use what is installed, and not look for anything else in a network that is not there."""
    caches = {name: place for name, place in _caches(folder).items() if Path(place).is_dir()}
    return {
        **caches,
        **({"GOPROXY": "off", "GOTOOLCHAIN": "local"} if "GOMODCACHE" in caches else {}),
        **({"CARGO_NET_OFFLINE": "true"} if "CARGO_HOME" in caches else {}),
        **(
            {"UV_NO_SYNC": "1", "UV_OFFLINE": "1", "UV_PYTHON_INSTALL_DIR": str(folder / "python")}
            if _uv(commands)
            else {}
        ),
        **({"POETRY_VIRTUALENVS_IN_PROJECT": "true"} if VENV in made.targets else {}),
    }


def _uv(commands: tuple[str, ...]) -> bool:
    return any(program_of(command) == "uv" for command in commands)


def _caches(folder: Path) -> dict[str, str]:
    """Return where Go and Cargo keep what they fetch, whoever starts them: checks read it there, nobody copies it."""
    return {"GOMODCACHE": str(folder / "go"), "CARGO_HOME": str(folder / "cargo")}


def _failed(command: str, finished: Finished, clean: Callable[[str], str]) -> NotReady:
    if finished.timed_out:
        how = f"did not end within {SETUP_TIMEOUT_S:g} s"
    elif finished.exit_code is None:
        how = f"was ended by signal {finished.signal}"
    else:
        how = f"ended with exit {finished.exit_code}"
    printed = clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
    last = f": {printed.splitlines()[-1].strip()[:LAST_LINE_CHARS]}" if printed else ""
    return NotReady(
        what=f"the set-up command `{command}` {how}{last}",
        fix="name other commands with `setup` in the configuration (`off` for none), or mend what it says",
        detail=printed[-DETAIL_CHARS:],
    )
