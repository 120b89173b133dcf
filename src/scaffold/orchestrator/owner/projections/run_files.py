"""The files in the projections that follow the state of a run: of its stories, and of its list of tasks."""

import contextlib

from scaffold.core.model import Run
from scaffold.core.states import Completed
from scaffold.orchestrator.owner.projections.marked_copy import MarkedCopy
from scaffold.orchestrator.owner.projections.workflow_file import WorkflowStateFile
from scaffold.run.context import RunContext
from scaffold.run.shared_notes import file_notes


class RunFiles:
    """These files, as one run writes them."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._workflow_state = WorkflowStateFile(context, run)
        self._marked_copy = MarkedCopy(context, run)

    async def write(self) -> None:
        """Make them agree with the store; one that cannot be written is left as it is."""
        if await self._workflow_state.write():
            await self._file_notes()
        await self._marked_copy.write()

    async def _file_notes(self) -> None:
        """Move the notes of completed stories to the archive, and those of stories that are open again back."""
        for action in self._context.store.actions.of_run(self._run.id):
            if action.method == "story" and action.kind == "compound":
                with contextlib.suppress(OSError):
                    completed = isinstance(action.state, Completed)
                    await file_notes(self._context, self._run.id, action.key, completed=completed)


async def write_run_files(context: RunContext, run: Run) -> None:
    """Write the files as `RunFiles.write` does, after a change of a run that no process executes."""
    await RunFiles(context, run).write()
