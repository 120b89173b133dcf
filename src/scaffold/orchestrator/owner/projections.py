"""Files in the user's checkout that mirror the store; ignored by git, and safe to delete at any time.

The project's own prompts live in the same folder and are not ignored.
"""

from scaffold.core.model import Run
from scaffold.host.files import write_atomic
from scaffold.run.context import RunContext
from scaffold.worker.contract.files import write_contract_files


def write_projections(context: RunContext, run: Run) -> None:
    """Write `.scaffold/.gitignore` and the contracts of a run; raises OSError if the checkout is not writable."""
    folder = context.projections
    write_atomic(folder / ".gitignore", b"*\n!/prompts/\n!/prompts/*.md\n")
    for action in context.store.actions.of_run(run.id):
        write_contract_files(context, action.id)
