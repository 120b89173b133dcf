"""Golden environments: run the set-up commands once per lock files and machine, and keep the result for copies."""

import asyncio
import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.model import Activity
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile, CopiedFolder
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.client.command_line import Git
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import FileLock, delete_path, try_lock, write_atomic
from scaffold.host.contained_path import ContainedPath
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.sidecar import with_services
from scaffold.host.tree_copy import copy_beneath, move_beneath
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import DETAIL_CHARS, During
from scaffold.verify.environment.check_env import OTHER_INSTALLATIONS, PYTHON_PATH, TOP_PLACEHOLDER, check_environ
from scaffold.verify.environment.dependencies import NODE_MODULES, VENV, command_program, installed_folders
from scaffold.verify.environment.generated_files import GeneratedFiles, build_inputs, made_by_setup
from scaffold.verify.environment.provisioning import STAGING_FOLDER
from scaffold.verify.environment.setup_network import setup_network, with_setup_network
from scaffold.verify.output_excerpt import deciding_line

SETUP_TIMEOUT_S = 1_800.0
LOCK_TIMEOUT_S = 7_200.0
REASON_CHARS = 200
RECORD = "made.json"
WRITTEN = "own"
"""The only part of an environment's folder that set-up commands may write: its record lies beside it."""
WAIT = Activity(label="waits for another run that sets up the same environment", is_whole=False)
CHECKOUT_SUFFIX = ".checkout"
"""Suffix of the checkout in which an environment is built."""
ENVIRONMENTS = "environments"
"""The folder of prepared environments in the user's cache."""
MAX_UNUSED_S = 30 * 86_400.0
"""An environment unused for this long is deleted when another one is built."""
INSTALLER_VARIABLES = {
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_package_import_method": "copy",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "POETRY_VIRTUALENVS_IN_PROJECT": "true",
    "UV_COMPILE_BYTECODE": "1",
    "UV_LINK_MODE": "copy",
}
"""Make installers write only to the checkout, ask nothing, and not link into their own caches."""

NO_CODE = {
    **dict.fromkeys(("PIP_ONLY_BINARY", "POETRY_INSTALLER_ONLY_BINARY", "PDM_ONLY_BINARY"), ":all:"),
    **dict.fromkeys(("YARN_ENABLE_SCRIPTS", "COREPACK_ENABLE_UNSAFE_CUSTOM_URLS"), "0"),
    "npm_config_ignore_scripts": "true",
    # `python -m` would look for modules in the checkout first.
    "PYTHONSAFEPATH": "1",
    "GOTOOLCHAIN": "local",
    "GOVCS": "*:off",
}
"""Make installers run no code of packages or of the checkout."""
_SCRIPTS = re.compile(r'"(hasInstallScript|(pre|post)?install|prepare)"\s*:')

SetupStep = tuple[str, Mapping[str, str], SandboxSpec | None]
"""A command, its variables and its sandbox."""
SandboxFactory = Callable[[Path], AbstractAsyncContextManager[SandboxSpec | None]]
"""Opens the sandbox for commands in a checkout; yields None for no sandbox."""


class ForeignSources(Struct, frozen=True):
    """What unlanded manifests may use besides the user's indexes."""

    hosts: tuple[str, ...] = ()
    unbuilt: tuple[str, ...] | None = None
    """The packages that uv builds from no source; None: all."""


class GoldenBuilder(Struct, frozen=True, kw_only=True):
    """The inputs for building a golden environment."""

    repository: Repository
    folder: Path
    """The folder of the golden environment, which contains all of its files."""
    base: Commit
    environ: Mapping[str, str]
    open_sandbox: SandboxFactory
    clean: Callable[[str], str]
    tell: Callable[[str], None]
    """Called with each command before it runs."""
    during: During
    """Shows each command, and the wait for another build of the same environment."""
    versions: frozenset[str] = frozenset()
    """Files that a build writes the version to."""
    foreign: ForeignSources | None = None
    """What manifests of unlanded work may lead to besides indexes; no code of packages runs. None for others."""


class GoldenRecord(Struct, frozen=True):
    """The contents of a golden environment. Written last, so its presence means that the environment is complete."""

    made_for: str
    targets: tuple[str, ...]
    generated: GeneratedFiles = GeneratedFiles()
    inputs: str = ""
    """A hash of the possible sources of the generated files."""


async def golden_environment(builder: GoldenBuilder, commands: tuple[str, ...]) -> CheckEnvironment | NotReady:
    """Return the environment that the commands install, built or reused; its fingerprint is empty."""
    inputs = await build_inputs(builder.repository.git, builder.base)
    for folder in (builder.folder, builder.folder.with_name(f"{builder.folder.name}-{inputs}")):
        # Two runs with the same lock files would build the same folder at once.
        async with AsyncExitStack() as stack:
            async with builder.during(WAIT):
                await stack.enter_async_context(FileLock(_lock_of(folder), timeout_s=LOCK_TIMEOUT_S))
            made = load_record(folder) or await _build_environment(
                structs.replace(builder, folder=folder), commands, inputs
            )
        if isinstance(made, NotReady):
            return made
        # Built files fit one set of sources; without built files, one environment serves all.
        if made.inputs == inputs or not made.generated.built:
            return _golden_environment(folder, made, commands)
    raise AssertionError(inputs)


async def snapshot_installed(folder: Path, root: Path, targets: tuple[str, ...]) -> CheckEnvironment:
    """Return a copy of the `targets` that the user installed in the checkout `root`, taken at the first call."""
    async with FileLock(_lock_of(folder), timeout_s=LOCK_TIMEOUT_S):
        made = load_record(folder)
        if made is None:
            delete_path(folder)
            for target in targets:
                kept = ContainedPath(folder.parent, f"{folder.name}/files/{target}")
                await copy_beneath(ContainedPath(root, target), kept)
            made = write_record(folder, GoldenRecord(str(root), targets))
    return _golden_environment(folder, made, ())


def load_record(folder: Path) -> GoldenRecord | None:
    """Return the record of a complete environment and mark it as used; None if it is missing or incomplete."""
    record = folder / RECORD
    try:
        made = msgspec.json.decode(record.read_bytes(), type=GoldenRecord)
        # The time of the last use, by which `forget_unused` decides.
        os.utime(record)
    except (OSError, msgspec.MsgspecError):
        return None
    return made


def forget_unused(newest: Path) -> None:
    """Delete the environments other than `newest` that were not used for `MAX_UNUSED_S` before it was built."""
    now = (newest / RECORD).stat().st_mtime
    delete_unused(newest.parent, before=now - MAX_UNUSED_S)
    for left in newest.parent.glob(f"{STAGING_FOLDER}/*"):
        if now - left.lstat().st_mtime > MAX_UNUSED_S:
            delete_path(left)


def unused(environments: Path, *, before: float) -> tuple[Path, ...]:
    """Return the folders of the environments that were last used before this time (epoch seconds)."""
    found = list[Path]()
    for record in sorted(environments.glob(f"*/{RECORD}")):
        with contextlib.suppress(OSError):  # deleted meanwhile
            if record.stat().st_mtime < before:
                found.append(record.parent)
    return tuple(found)


def delete_unused(environments: Path, *, before: float) -> tuple[Path, ...]:
    """Delete the environments that were last used before this time (epoch seconds); return their folders.

    Environments that are being built or looked up, or are in the `EnvironmentUse` of a live process, are kept.
    """
    deleted = list[Path]()
    for folder in unused(environments, before=before):
        record = folder / RECORD
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            locks = [opened.enter_context(record.open("rb"))]
            # An environment of copied files was never built under a lock, so it has none.
            if (lock := _lock_of(folder)).exists():
                locks.append(opened.enter_context(lock.open("rb")))
            if all(try_lock(each.fileno()) for each in locks) and record.stat().st_mtime < before:
                # The record first: without it, the leftovers of a kill count as incomplete.
                record.unlink()
                delete_path(folder)
                deleted.append(folder)
    return tuple(deleted)


class EnvironmentUse:
    """The use of prepared environments by a run: none is deleted until `close`, or until this process dies."""

    def __init__(self) -> None:
        self._held: dict[Path, BufferedReader] = {}

    def note(self, environments: Path, environment: CheckEnvironment) -> None:
        """Protect the prepared folders and files that a run copies, and mark them as used; safe to repeat."""
        files = (*environment.files, *environment.built)
        copied = (*(each.source for each in environment.copies), *(each.source for each in files))
        paths = map(Path, (*copied, *environment.shown))
        for name in {path.relative_to(environments).parts[0] for path in paths if path.is_relative_to(environments)}:
            with contextlib.suppress(OSError):
                self._mark_in_use(environments / name / RECORD)

    def close(self) -> None:
        """Give the environments back; safe to repeat."""
        while self._held:
            self._held.popitem()[1].close()

    def _mark_in_use(self, record: Path) -> None:
        os.utime(record)
        if record not in self._held:
            opened = record.open("rb")
            # Shared with other runs. Fails while another process checks whether the environment is used.
            if not try_lock(opened.fileno(), shared=True):
                opened.close()
                return
            self._held[record] = opened


def write_record(folder: Path, made: GoldenRecord) -> GoldenRecord:
    """Record what a folder contains and return it; call it last, when the folder is complete."""
    write_atomic(folder / RECORD, msgspec.json.encode(made))
    return made


async def remove_unfinished_builds(repository: Repository, environments: Path) -> None:
    """Remove the leftovers of killed builds for this repository; a running build holds a lock."""
    for checkout in sorted(environments.glob(f"*{CHECKOUT_SUFFIX}")):  # noqa: ASYNC240 - one small folder
        folder = checkout.with_name(checkout.name.removesuffix(CHECKOUT_SUFFIX))
        with _lock_of(folder).open("ab") as lock:
            if try_lock(lock.fileno()) and worktree.find_worktree(repository, checkout) is not None:
                await worktree.remove(repository, checkout)
                if load_record(folder) is None:
                    delete_path(folder)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


async def _build_environment(builder: GoldenBuilder, commands: tuple[str, ...], inputs: str) -> GoldenRecord | NotReady:
    # A folder without a record was left by an interrupted build.
    delete_path(builder.folder)
    checkout = builder.folder.with_name(f"{builder.folder.name}{CHECKOUT_SUFFIX}")
    git = await worktree.add(builder.repository, checkout, builder.base)
    try:
        if problem := await _set_up(builder, git, commands):
            return problem
        targets = await installed_folders(git, ignored=False)
        tracked = frozenset(await commits.listed_paths(git, builder.base))
        generated = await made_by_setup(git, tracked, builder.versions, targets)
        for target in (*targets, *generated.versions, *generated.built):
            # A rename takes no time and no space; both folders are in the same cache.
            move_beneath(ContainedPath(checkout, target), ContainedPath(builder.folder, f"files/{target}"))
        # Installers copy from their stores, so the packages are complete without the stores.
        delete_path(builder.folder / WRITTEN / "store")
        made = write_record(builder.folder, GoldenRecord(str(checkout), targets, generated, inputs))
        await asyncio.to_thread(forget_unused, builder.folder)
        return made
    finally:
        await worktree.remove(builder.repository, checkout)
        if load_record(builder.folder) is None:
            delete_path(builder.folder)


async def _set_up(builder: GoldenBuilder, git: Git, commands: tuple[str, ...]) -> NotReady | None:
    written = builder.folder / WRITTEN
    written.mkdir(parents=True)
    # otherwise installers would use an activated environment instead of ours
    outer = {name: value for name, value in builder.environ.items() if name not in (*OTHER_INSTALLATIONS, PYTHON_PATH)}
    environ = check_environ(_installer_environment(written), git.cwd, outer) | _no_code(builder.foreign)
    network = setup_network(commands, environ, Path.home(), also=builder.foreign.hosts if builder.foreign else None)
    async with (
        builder.open_sandbox(git.cwd) as sandbox,
        with_setup_network(_with_folder(sandbox, written), network, outer) as (confined, sockets),
    ):
        steps: list[SetupStep] = [(command, environ, confined) for command in commands]
        if builder.foreign:
            steps = [step for each in steps for step in _without_code(each, git.cwd)]
        for command, variables, walls in steps:
            opened = sockets if walls is confined else None
            builder.tell(command)
            async with builder.during(Activity(label="set-up", command=command)):
                finished = await run_command(
                    with_services((), ("/bin/sh", "-c", command), top=git.cwd, socket_folder=opened),
                    cwd=git.cwd,
                    env=variables,
                    timeout_s=SETUP_TIMEOUT_S,
                    containment=Containment(sandbox=walls),
                )
            if finished.exit_code != 0:
                if finished.timed_out:
                    how = f"timed out after {SETUP_TIMEOUT_S:g} s"
                elif finished.exit_code is None:
                    how = f"was killed by signal {finished.signal}"
                else:
                    how = f"exited with code {finished.exit_code}"
                printed = builder.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
                # The checkout is removed: a path in it would lead nowhere.
                printed = printed.replace(f"{git.cwd}/", "").replace(str(git.cwd), ".")
                said = (deciding_line(printed) or printed.rpartition("\n")[2]).strip()[:REASON_CHARS].rstrip(".")
                return NotReady(
                    what=f"the set-up command `{command}` {how}{f': {said}' if said else ''}",
                    fix="fix the cause, or set other commands with `setup` in the configuration (`off` for none)",
                    detail=printed[-DETAIL_CHARS:],
                )
    return None


def _no_code(foreign: ForeignSources | None) -> dict[str, str]:
    if foreign is None:
        return {}
    # The project itself is a source, too, for uv.
    uv = {"UV_NO_BUILD": "1"} if foreign.unbuilt is None else {"UV_NO_BUILD_PACKAGE": " ".join(foreign.unbuilt)}
    return NO_CODE | uv


def _without_code(step: SetupStep, top: Path) -> Iterator[SetupStep]:
    """Yield the steps of a command: what it fetches, without scripts, and if there are any, these without a network.

    Those of packages are the base's, because an agreement is needed for new ones.
    """
    command, environ, sandbox = step
    place = re.match(r"cd (\S+) &&", command)
    folder = top / (shlex.split(place[1])[0] if place else "")
    if not (folder / ".yarnrc.yml").exists():  # these two know no variable for it
        command = re.sub(r"\b(yarn|bun) install\b", r"\g<0> --ignore-scripts", command)
    yield command, environ, sandbox
    locks = [path for name in ("package-lock.json", "npm-shrinkwrap.json") for path in top.rglob(name)]
    texts = (path.read_text("utf-8", errors="replace") for path in (folder / "package.json", *locks) if path.is_file())
    # `npm install` takes more than a lock lists, and npm runs its scripts; so does `npm ci` with a lock of version 1.
    if re.search(r"\bnpm ci\b", command) and all(map(_lists_scripts, locks)) and any(map(_SCRIPTS.search, texts)):
        if sandbox:
            offline = structs.replace(sandbox.confinement, network="none")
            sandbox = structs.replace(sandbox, confinement=offline, proxy=None, port=None)
        yield command, {**environ, "npm_config_ignore_scripts": "false", "npm_config_offline": "true"}, sandbox


def _lists_scripts(lock: Path) -> bool:
    try:
        version = msgspec.json.decode(lock.read_bytes(), type=dict[str, Any]).get("lockfileVersion")
    except (OSError, RecursionError, msgspec.MsgspecError):
        return False
    return isinstance(version, int) and version > 1


def _with_folder(sandbox: SandboxSpec | None, folder: Path) -> SandboxSpec | None:
    if sandbox is None:
        return None
    writable = (*sandbox.confinement.writable, folder.resolve())
    return structs.replace(sandbox, confinement=structs.replace(sandbox.confinement, writable=writable))


def _installer_environment(folder: Path) -> CheckEnvironment:
    store = {
        **dict.fromkeys(("npm_config_store_dir", "pnpm_config_store_dir"), str(folder / "store")),
        # Yarn 2 and later writes there even without a global cache.
        "YARN_GLOBAL_FOLDER": str(folder / "store" / "yarn"),
        "UV_PYTHON_INSTALL_DIR": str(folder / "python"),
    }
    return CheckEnvironment(
        fingerprint="",
        path=(f"{TOP_PLACEHOLDER}/{VENV}/bin", f"{TOP_PLACEHOLDER}/{NODE_MODULES}/.bin"),
        # Go makes its module cache read-only, so that it could not be deleted.
        variables={**INSTALLER_VARIABLES, **store, **_cache_folders(folder), "GOFLAGS": "-modcacherw"},
    )


def _golden_environment(folder: Path, made: GoldenRecord, commands: tuple[str, ...]) -> CheckEnvironment:
    copies = tuple(
        CopiedFolder(source=str(folder / "files" / target), target=target, made_for=made.made_for)
        for target in made.targets
    )
    caches = {name: path for name, path in _cache_folders(folder / WRITTEN).items() if Path(path).is_dir()}
    return CheckEnvironment(
        fingerprint="",
        path=tuple(installed_programs(made.targets)),
        variables={
            **caches,
            # Without a network a missing package should be an error at once, not a timeout.
            **({"GOPROXY": "off", "GOTOOLCHAIN": "local"} if "GOMODCACHE" in caches else {}),
            **({"CARGO_NET_OFFLINE": "true"} if "CARGO_HOME" in caches else {}),
            **(
                {"UV_NO_SYNC": "1", "UV_OFFLINE": "1", "UV_PYTHON_INSTALL_DIR": str(folder / WRITTEN / "python")}
                if any(command_program(command) == "uv" for command in commands)
                else {}
            ),
            **({"POETRY_VIRTUALENVS_IN_PROJECT": "true"} if VENV in made.targets else {}),
        },
        copies=copies,
        files=_copied_files(folder, made.generated.versions),
        built=_copied_files(folder, made.generated.built),
        shown=(str(folder),),
    )


def installed_programs(targets: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders of programs installed at the top, or in the only Python project below it."""
    nested = [target for target in targets if target.rpartition("/")[2] == VENV]
    for target in targets:
        if target == VENV or nested == [target]:
            yield f"{TOP_PLACEHOLDER}/{target}/bin"
        elif target == NODE_MODULES:
            yield f"{TOP_PLACEHOLDER}/{target}/.bin"


def _copied_files(folder: Path, names: tuple[str, ...]) -> tuple[CopiedFile, ...]:
    return tuple(CopiedFile(source=str(folder / "files" / name), target=name) for name in names)


def _cache_folders(folder: Path) -> dict[str, str]:
    # Checks read the caches of Go and Cargo in place, without a copy.
    return {"GOMODCACHE": str(folder / "go"), "CARGO_HOME": str(folder / "cargo")}
