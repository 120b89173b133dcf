"""The files in `.scaffold/` that mirror a run: workflow state, story log, archived notes, marked list of tasks.

A file that cannot be written is left as it is: the store is what counts.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.core.run_settings import WriteBack
from scaffold.core.states import Completed
from scaffold.host.atomic_files import FileLock
from scaffold.host.contained_path import ContainedPath
from scaffold.plan.source.formats import with_done
from scaffold.plan.story.record import StoryRecord, log_line
from scaffold.plan.story.workflow_state import Document, encode_state, project, read_state
from scaffold.run.context import RunContext
from scaffold.run.projections import LOGS
from scaffold.run.shared_notes import file_notes
from scaffold.views.story_record import all_stories, has_stories

STATE_NAME = "workflow_state.json"
LOCK_TIMEOUT_S = 60.0
LOG_NAME = "orchestrator.jsonl"
MAX_LOG_BYTES = 256 * 1024 * 1024
"""A larger file gets no more lines, because it is too large to be read for duplicates."""
MARKED = "marked"
"""The folder of the marked copies in the projections, by run."""


class RunFiles:
    """Writes the files of one run."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._workflow_state = WorkflowStateFile(context, run)
        self._marked_copy = MarkedCopy(context, run)

    async def write(self) -> None:
        """Bring the files in line with the store."""
        if await self._workflow_state.write():
            # The notes of completed stories go to the archive, and come back if a story is reopened.
            for action in self._context.store.actions.for_run(self._run.id):
                if action.method == "story" and action.kind == "compound":
                    with contextlib.suppress(OSError):
                        completed = isinstance(action.state, Completed)
                        await file_notes(self._context, self._run.id, action.key, completed=completed)
        await self._marked_copy.write()


async def write_run_files(context: RunContext, run: Run) -> None:
    """Write the files after a change of a run that no process executes."""
    await RunFiles(context, run).write()


class WorkflowStateFile:
    """Writes `workflow_state.json`, which belongs to the newest run of a PRD; the stories of all runs go to the log."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._path = context.projections / STATE_NAME
        self._log = StoryLog(context.projections)
        self._has_stories: bool | None = None
        self._written: bytes | None = None
        self._given: Document | None = None
        """The document in the file before `_written`; cached, because reading it is slow."""

    async def write(self) -> bool:
        """Write the state of the run's stories if it has changed, and log it; return whether the file is this run's.

        Unknown fields stay.
        """
        # A plan gets all its stories at once, so one look is enough.
        if self._has_stories is None:
            self._has_stories = has_stories(self._context.store, self._run)
        if not self._has_stories:
            return False
        lock = self._context.repository.common_dir / "scaffold" / f"{STATE_NAME}.lock"
        async with FileLock(lock, timeout_s=LOCK_TIMEOUT_S):
            store = self._context.store
            stories = all_stories(store, self._run, self._context.projections.path)
            with contextlib.suppress(OSError):
                self._log.add(stories)
            newest = (each.id for each in store.runs.with_method("story") if not each.settings.planning.one_shot)
            if next(newest, None) != self._run.id:
                return False
            state = project(stories, created_at=self._run.created_at, prd_file=self._run.request)
            with contextlib.suppress(OSError):
                there = self._path.read(MAX_LOG_BYTES)
                if there != self._written:
                    self._given = _read_document(there)
                text = encode_state(state, self._given)
                if there != text:
                    self._path.write(text)
                self._written = text
        return True


def _read_document(content: bytes | str) -> Document | None:
    with contextlib.suppress(PlanInvalid, UnicodeDecodeError):
        return None if isinstance(content, str) else read_state(content.decode("utf-8"), name=STATE_NAME).given
    return None


class StoryLog:
    """Writes `logs/orchestrator.jsonl`, which only grows: the history of the stories of all runs, one object per line.

    The caller holds a lock. Each line mirrors an entry of the store, so lines that a killed process did not write are
    added later, and none is written twice.
    """

    def __init__(self, folder: ContainedPath) -> None:
        self._path = folder / LOGS / LOG_NAME
        self._logged = Counter[bytes]()
        self._size: int | None = None
        """The size of the file with the lines of `_logged`; None before it is read."""

    def add(self, stories: Sequence[StoryRecord]) -> None:
        """Add the entries of these stories that the file lacks, oldest first; raises OSError if that fails."""
        status = self._path.status()
        size = status.st_size if status else 0
        if self._size is None or self._size != size:
            # A line that a killed process did not finish is removed.
            content = self._path.read(MAX_LOG_BYTES) if size else b""
            if isinstance(content, str):
                raise OSError(f"{self._path} is not read: {content}")
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                self._path.write(whole)
            self._logged, self._size = Counter(whole.splitlines()), len(whole)
        new = list(self._new_lines(stories))
        if new and self._size is not None:
            self._path.append(b"\n".join(new))
            self._logged.update(new)
            self._size += sum(len(line) + 1 for line in new)

    def _new_lines(self, stories: Sequence[StoryRecord]) -> Iterator[bytes]:
        entries = [(entry.timestamp, log_line(story.story_id, entry)) for story in stories for entry in story.history]
        # Operations of one edit may be equal lines, so lines are counted.
        left = self._logged.copy()
        for _, line in sorted(entries, key=lambda each: each[0]):
            written = line.encode()
            if left[written]:
                left[written] -= 1
            else:
                yield written


class MarkedCopy:
    """Writes a copy of a run's list of tasks that is outside of the repository, with the done tasks marked."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._path = marked_copy(context, run)
        self._written: tuple[frozenset[ActionKey], int] | None = None

    async def write(self) -> None:
        """Write the list with the done tasks marked, if either has changed; a list that cannot be read is skipped."""
        listed = self._run.settings.landing.write_back
        if self._path is None or listed is None:
            return
        actions = self._context.store.actions.for_run(self._run.id)
        done = frozenset(each.key for each in actions if isinstance(each.state, Completed))
        with contextlib.suppress(OSError, PlanInvalid, UnicodeDecodeError):
            now = done, _modified_ns(listed)
            if now != self._written or not self._path.is_file():
                await asyncio.to_thread(_write_copy, listed, self._path, done)
                self._written = now


def marked_copy(context: RunContext, run: Run) -> ContainedPath | None:
    """Return the path of the copy; None for a run that marks tasks in its commits, or not at all."""
    listed = run.settings.landing.write_back
    if listed is None or listed.tracked:
        return None
    return context.projections / MARKED / run.id / Path(listed.path).name


def _modified_ns(listed: WriteBack) -> int:
    return Path(listed.path).stat().st_mtime_ns


def _write_copy(listed: WriteBack, path: ContainedPath, done: frozenset[ActionKey]) -> None:
    text = Path(listed.path).read_bytes().decode()
    marked = with_done(listed.format, text, done, name=listed.path).text.encode()
    if path.read(len(marked)) != marked:
        path.write(marked)
