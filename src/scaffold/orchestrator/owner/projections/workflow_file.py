"""What the projections say of a run's stories: `workflow_state.json`, and the log of the orchestrator."""

import contextlib

from scaffold.core.errors import PlanInvalid
from scaffold.core.model import Run
from scaffold.host.atomic_files import FileLock, write_atomic
from scaffold.orchestrator.owner.story_log import StoryLog
from scaffold.plan.story.workflow_state import Document, encode_state, project, read_state
from scaffold.run.context import RunContext
from scaffold.views.story_record import all_stories, has_stories

NAME = "workflow_state.json"
LOCK_TIMEOUT_S = 60.0


class WorkflowStateFile:
    """The file, as one run writes it: only the newest run of a PRD does, whose file it is.

    The story of a single request has a state as long as its run, and leaves the file to the stories of a PRD. All runs
    add to the log.
    """

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._path = context.projections / NAME
        self._log = StoryLog(context.projections)
        self._has_stories: bool | None = None
        self._written: bytes | None = None
        self._given: Document | None = None
        """What was in the file before `_written` was; it takes as long to read as all else of a write."""

    async def write(self) -> bool:
        """Write the state of the run's stories if it has changed, and log it; return whether the file is this run's.

        Fields that we do not know stay. A file that cannot be written is left as it is: the store is what counts.
        """
        # A plan gets its stories at once, so that runs without any are asked only once.
        if self._has_stories is None:
            self._has_stories = has_stories(self._context.store, self._run)
        if not self._has_stories:
            return False
        lock = self._context.repository.common_dir / "scaffold" / f"{NAME}.lock"
        async with FileLock(lock, timeout_s=LOCK_TIMEOUT_S):
            store = self._context.store
            stories = all_stories(store, self._run, self._context.projections)
            with contextlib.suppress(OSError):
                self._log.add(stories)
            newest = (each.id for each in store.runs.with_method("story") if not each.settings.planning.one_shot)
            if next(newest, None) != self._run.id:
                return False
            state = project(stories, created_at=self._run.created_at, prd_file=self._run.request)
            with contextlib.suppress(OSError):
                there = self._path.read_bytes() if self._path.exists() else None
                if there is None or there != self._written:
                    self._given = _read_document(there)
                text = encode_state(state, self._given)
                if there != text:
                    write_atomic(self._path, text)
                self._written = text
        return True


def _read_document(content: bytes | None) -> Document | None:
    """Return the document that a file has; None if it cannot be read as one."""
    with contextlib.suppress(PlanInvalid, UnicodeDecodeError):
        return None if content is None else read_state(content.decode("utf-8"), name=NAME).given
    return None
