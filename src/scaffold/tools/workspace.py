"""The folder an agent works in, and how a tool's result becomes an answer."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from scaffold.core.tool import ToolOutput
from scaffold.git.common_dir import is_git_dir_by_names
from scaffold.host.child_environment import child_environment, path_outside
from scaffold.host.sandbox.confinement import CommandSandbox, SandboxSpec, built
from scaffold.policy.command_sandbox import own_programs, with_new_secrets
from scaffold.policy.path.containment import Refusal, resolve_inside
from scaffold.policy.path.protected_files import protected_entry
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.nested_repositories import MAX_PROTECTED, NestedRepositories, sealed_path

MAX_ANSWER_CHARS = 30_000
"""Approximate limit of an answer in characters."""


def ignore_output() -> None:
    """Do nothing."""


class Workspace(Struct, frozen=True):
    """An agent's working folder and the environment of the commands it starts."""

    root: Path
    env: Mapping[str, str]
    readable: tuple[Path, ...] = ()
    """Further absolute folders, readable by absolute path, never writable."""
    sandbox: CommandSandbox | None = None
    """The sandbox of the commands that an agent starts; None: no sandbox."""
    redactor: Redactor = Redactor()
    """Removes secrets from saved command output."""
    nested: NestedRepositories | None = None
    """Moves aside the repositories that sandboxed commands make in it; None if git is never run in it unchecked."""

    on_output: Callable[[], object] = ignore_output
    """Called whenever a command prints something."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    """The files that the agent's conversation has read or written."""
    replaces_unread: bool = False
    """Whether a file may be replaced as a whole that the conversation has not read: in a worker's own worktree."""

    @property
    def own_env(self) -> dict[str, str]:
        """The environment of our own helper programs, which run outside of the sandbox.

        It names no folder from which such a program would load code that an agent wrote.
        """
        return child_environment(self.env, {"PATH": path_outside(self.env, self.root)})

    async def current_sandbox(self, nested: Sequence[Path] = ()) -> SandboxSpec | None:
        """Return the sandbox for a command started now; it also hides secrets that appeared since it was built.

        The repositories `nested` in the workspace are protected, too.
        """
        # An agent's command may have created a secret since, such as a key.
        spec = await built(self.sandbox)
        if spec is None or spec.known is None:
            return spec
        zone = with_new_secrets(spec.confinement, spec.known)
        sealed = (sealed_path(path, self.root.resolve()) for path in nested[:MAX_PROTECTED])
        zone = structs.replace(zone, protected=(*zone.protected, *sealed))
        return structs.replace(spec, confinement=zone)


class ReadablePath(Struct, frozen=True):
    """A readable path, resolved, and the root folder that it is opened from."""

    folder: Path
    path: Path


class Deadline:
    """The deadline of work in a thread: it expires after some seconds, or when the caller stops waiting."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._left = threading.Event()

    def end(self) -> None:
        """Expire now, because the caller stopped waiting."""
        self._left.set()

    @property
    def expired(self) -> bool:
        """Return True if the thread must stop now."""
        return self._left.is_set() or time.monotonic() >= self._until


def resolve_readable(workspace: Workspace, path: str) -> ReadablePath | Refusal:
    """Return `path` resolved in the workspace or another readable folder, or why it may not be read."""
    target = resolve_inside(workspace.root, path)
    if not isinstance(target, Refusal):
        return _unless_secret(ReadablePath(workspace.root, target), path)
    for folder in workspace.readable if path.startswith("/") else ():
        inside = resolve_inside(folder, path)
        if not isinstance(inside, Refusal):
            return _unless_secret(ReadablePath(folder, inside), path)
    return target


def _unless_secret(target: ReadablePath, path: str) -> ReadablePath | Refusal:
    # Checked again here, because a link may have changed since the gate ran.
    entry = secret_entry(_path_within(target.folder, target.path))
    return Refusal(f"{path!r} contains secrets ({entry}); agents must not read it.") if entry else target


def resolve_writable(workspace: Workspace, path: str) -> Path | Refusal:
    """Return `path` resolved in the workspace, or why it may not be written.

    `~...` and a trailing `/` are refused: taken literally they would create a file that was not meant.
    """
    if path.startswith("~"):
        return Refusal(f"{path!r}: `~` is not expanded; give a path in the workspace (./~... for such a name).")
    # Taken literally, it would create a file where the model means a folder.
    if path.endswith("/"):
        return Refusal(f"{path!r} names a folder; name a file in it.")
    target = resolve_inside(workspace.root, path)
    if isinstance(target, Refusal):
        return target
    inside = _path_within(workspace.root, target)  # checked again after the gate: a link may have changed since
    reason = _write_protection(target, inside, workspace.root.resolve())
    return Refusal(f"{path!r} {reason}; agents must not write it.") if reason else target


def _write_protection(target: Path, inside: str, root: Path) -> str:
    if entry := protected_entry(inside) or secret_entry(inside):
        return f"is protected ({entry})"
    if folder := _repository_with(target, root):
        return f"belongs to the repository {folder.name}, and git runs the programs that one names"
    if any(map(target.is_relative_to, own_programs(root))):
        return "is in the environment that Scaffold runs from"
    return ""


def _repository_with(target: Path, root: Path) -> Path | None:
    # Git takes any folder with certain entries for a bare repository and obeys its configuration.
    for folder in target.parents:
        if not folder.is_relative_to(root):
            return None
        names = {entry.name.casefold() for entry in folder.iterdir()} if folder.is_dir() else set[str]()
        # The workspace may be a checkout itself; its own `.git` is protected by its name.
        own = ".git" in names and folder == root
        if not own and is_git_dir_by_names(names | {target.relative_to(folder).parts[0].casefold()}):
            return folder
    return None


def _path_within(root: Path, target: Path) -> str:
    return target.relative_to(root.resolve()).as_posix()


def failed_answer(reason: str) -> ToolOutput:
    """Return a failed answer; `reason` says why and what to do instead."""
    return ToolOutput(reason, failed=True)


def run_in_thread(
    work: Callable[[Mapping[str, Any]], ToolOutput],
) -> Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]:
    """Return `work` as a tool's function that runs in a thread; OSError becomes a failed answer."""
    return run_with_deadline(lambda args, _: work(args), float("inf"))


def run_with_deadline(
    work: Callable[[Mapping[str, Any], Deadline], ToolOutput], seconds: float
) -> Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]:
    """Return `work` like `run_in_thread`, for long work that checks its deadline regularly.

    The deadline expires after `seconds`, or when the call is cancelled.
    """

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        deadline = Deadline(seconds)
        try:
            return await asyncio.to_thread(work, args, deadline)
        except OSError as error:
            return failed_answer(
                f"File system error: {error.strerror or error}. Use another path, or check with list_dir."
            )
        finally:
            # A thread cannot be cancelled: it ends when it looks at its deadline.
            deadline.end()

    return run


def printable_name(name: str) -> str:
    """Return a file name or path; quoted and escaped if it has outer spaces or unprintable characters."""
    odd = name != name.strip() or any(not each.isprintable() for each in name)
    return json.dumps(name) if odd else name
