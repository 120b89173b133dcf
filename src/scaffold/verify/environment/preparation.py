"""Preparation: what the checks of a run stand on, decided by what is installed already and what may be run."""

import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.gates import CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.git.repository import Repository
from scaffold.verify.environment.dependencies import (
    MODULES,
    VENV,
    contents,
    deciding,
    digest,
    folder_of,
    installed_in,
    programs,
    with_venv,
)
from scaffold.verify.environment.golden import Enclose, Foundry, golden, snapshot
from scaffold.verify.readiness import NotReady


def unheard(_command: str) -> None:
    """Tell nobody."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What an environment is to be prepared for."""

    repository: Repository
    base: Commit
    setup: tuple[str, ...]
    """The commands that prepare a checkout of it."""
    trusted: bool
    """Whether they may be run."""
    services: tuple[str, ...] = ()
    cache: Path
    """The user's cache directory for Scaffold."""
    environ: Mapping[str, str]
    """What children may inherit."""
    enclose: Enclose
    clean: Callable[[str], str]
    """Returns what commands print as it may be told."""
    tell: Callable[[str], None] = unheard
    """Hears of each set-up command before it runs, which may take minutes."""


class Prepared(Struct, frozen=True):
    """What checks stand on."""

    environment: CheckEnvironment
    left_out: tuple[str, ...]
    """Set-up commands whose work seems not to be there, and that were not run as nobody trusts the folder."""


class Course(Struct, frozen=True):
    """What to do for an environment."""

    run: tuple[str, ...]
    """Set-up commands."""
    copy: tuple[str, ...]
    """Dependencies in the user's checkout that others get a copy of."""
    borrow: bool
    """Whether the user's own virtual environment is used where it is."""
    left_out: tuple[str, ...]


def decide(setup: tuple[str, ...], there: tuple[str, ...], *, trusted: bool) -> Course:
    """Return what to do with the dependencies that are `there` in the user's checkout, and with the set-up commands.

    What the user has installed is not installed again.
    """
    missing = tuple(command for command in setup if folder_of(command) not in there)
    run = with_venv(missing) if trusted else ()
    made = {folder_of(command) for command in run}
    copied = tuple(path for path in there if path.rpartition("/")[2] == MODULES and MODULES not in made)
    return Course(run=run, copy=copied, borrow=VENV in there and VENV not in made, left_out=() if trusted else missing)


async def prepare(wanted: Wanted) -> Prepared | NotReady:
    """Return what the checks of a run at `base` stand on; made once for the same dependencies, then found again."""
    root = wanted.repository.root
    there = await installed_in(wanted.repository.git, ignored=True)
    course = decide(wanted.setup, there, trusted=wanted.trusted)
    machine = (sys.platform, platform.machine(), *programs(wanted.environ.get("PATH", "")))
    locks = await deciding(wanted.repository.git, wanted.base)
    parts = [_borrowed(root)] if course.borrow else []
    if course.copy:
        own = digest(line for target in course.copy for line in contents(root / target))
        parts.append(await snapshot(_folder(wanted, own), root, course.copy))
    if course.run:
        installed = await golden(_foundry(wanted, digest((*machine, *locks, *course.run))), course.run)
        if isinstance(installed, NotReady):
            return installed
        parts.append(installed)
    environment = _joined(parts, wanted.services)
    own_venv = contents(root / VENV) if course.borrow else ()
    fingerprint = digest((*machine, *locks, *own_venv, repr(environment)))
    return Prepared(structs.replace(environment, fingerprint=fingerprint), course.left_out)


def _borrowed(root: Path) -> CheckEnvironment:
    """Return the user's own virtual environment: read where it is, never written."""
    return CheckEnvironment(fingerprint="", path=(str(root / VENV / "bin"),), shown=(str(root / VENV),))


def _joined(parts: list[CheckEnvironment], services: tuple[str, ...]) -> CheckEnvironment:
    """Return one environment with all parts, the last first where programs are looked for."""
    return CheckEnvironment(
        fingerprint="",
        path=tuple(folder for part in reversed(parts) for folder in part.path),
        variables={name: value for part in parts for name, value in part.variables.items()},
        copies=tuple(copied for part in parts for copied in part.copies),
        shown=tuple(folder for part in parts for folder in part.shown),
        services=services,
    )


def _foundry(wanted: Wanted, key: str) -> Foundry:
    return Foundry(
        repository=wanted.repository,
        folder=_folder(wanted, key),
        base=wanted.base,
        environ=wanted.environ,
        enclose=wanted.enclose,
        clean=wanted.clean,
        tell=wanted.tell,
    )


def _folder(wanted: Wanted, key: str) -> Path:
    return wanted.cache / "environments" / key
