"""The one folder an agent works in, and how a tool's work becomes an answer."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.tool import ToolOutput
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.policy.paths import Refusal, confine
from scaffold.policy.protected import protected_by
from scaffold.policy.redaction import Redactor
from scaffold.policy.secrets import secret_by
from scaffold.policy.zones import with_newcomers

ANSWER_LIMIT = 30_000
"""Characters of an answer, about."""


def nobody() -> None:
    """Hear nothing."""


class Workspace(Struct, frozen=True):
    """Where an agent works, and the environment of the commands it starts."""

    root: Path
    env: Mapping[str, str]
    readable: tuple[Path, ...] = ()
    """Further folders, absolute, that may be read by absolute paths and are never written."""
    enclosure: Enclosure | None = None
    """What holds the commands that an agent starts; None: nothing does."""
    redactor: Redactor = Redactor()
    """Takes secrets out of what is kept of their output."""
    known: Collection[str] | None = None
    """Names at the top of `root` that `enclosure` knows of; None: what comes there later holds no secrets."""

    heard: Callable[[], object] = nobody
    """Is told whenever a command prints something."""

    def walls(self) -> Enclosure | None:
        """Return what holds a command that begins now: from it, secrets that came meanwhile are hidden as well."""
        if self.enclosure is None or self.known is None:
            return self.enclosure
        zone = with_newcomers(self.enclosure.confinement, self.known)
        return structs.replace(self.enclosure, confinement=zone)


class Place(Struct, frozen=True):
    """A path that may be read: resolved, and the folder that it lies in and is opened from."""

    folder: Path
    path: Path


class Patience:
    """How long a thread goes on: until its time is over, or nobody waits for it any more."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._left = threading.Event()

    def end(self) -> None:
        """Say that nobody waits."""
        self._left.set()

    @property
    def is_over(self) -> bool:
        """Return whether the thread is to stop now."""
        return self._left.is_set() or time.monotonic() >= self._until


def may_read(workspace: Workspace, path: str) -> Place | Refusal:
    """Return where `path` leads, in the workspace or in a folder that may be read besides, or why it may not."""
    place = confine(workspace.root, path)
    if not isinstance(place, Refusal):
        return _unless_secret(Place(workspace.root, place), path)
    for folder in workspace.readable if path.startswith("/") else ():
        inside = confine(folder, path)
        if not isinstance(inside, Refusal):
            return Place(folder, inside)
    return place


def _unless_secret(place: Place, path: str) -> Place | Refusal:
    """Return the place if what lies there now may be read: a link may have changed since the gate looked."""
    entry = secret_by(_within(place.folder, place.path))
    return Refusal(f"{path!r} holds secrets ({entry}); no agent reads it.") if entry else place


def may_write(workspace: Workspace, path: str) -> Path | Refusal:
    """Return where a file called `path` lies in the workspace, or why it may not be written.

    What no file is meant by is refused, for nobody wants the file that would come of it.
    """
    if path.startswith("~"):
        return Refusal(f"{path!r}: `~` is no folder here; give a path in the workspace (./~... if its name begins so).")
    if path.endswith("/"):
        return Refusal(f"{path!r} names a folder; name a file in it.")
    place = confine(workspace.root, path)
    if isinstance(place, Refusal):
        return place
    inside = _within(workspace.root, place)  # once more than the gate: a link may have changed since it looked
    if entry := protected_by(inside) or secret_by(inside):
        return Refusal(f"{path!r} is protected ({entry}); no agent writes it.")
    return place


def _within(root: Path, place: Path) -> str:
    return place.relative_to(root.resolve()).as_posix()


def failed(reason: str) -> ToolOutput:
    """Return an answer that says why nothing came of the call, and what to do instead."""
    return ToolOutput(reason, failed=True)


def in_a_thread(
    work: Callable[[Mapping[str, Any]], ToolOutput],
) -> Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]:
    """Return `work` as a tool's function: off the event loop, with errors of the file system as failed answers."""
    return in_bounded_time(lambda args, _: work(args), float("inf"))


def in_bounded_time(
    work: Callable[[Mapping[str, Any], Patience], ToolOutput], seconds: float
) -> Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]:
    """Return `work` as `in_a_thread` does, for what may take long: it looks at its patience now and then.

    That is over after some `seconds`, or when the call is cancelled.
    """

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        patience = Patience(seconds)
        try:
            return await asyncio.to_thread(work, args, patience)
        except OSError as error:
            return failed(
                f"The file system refused: {error.strerror or error}. Use another path, or look with list_dir."
            )
        finally:
            patience.end()

    return run


def shown_name(name: str) -> str:
    """Return a file's name or path as it is, or in quotes and escaped where it could be taken for something else."""
    odd = name != name.strip() or any(not each.isprintable() for each in name)
    return json.dumps(name) if odd else name


def excerpt(text: str, limit: int) -> str:
    """Return `text`, or its head and tail with a note on what is missing between them if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n... {len(text) - head - tail} characters left out ...\n{text[-tail:]}"
