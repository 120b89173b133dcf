"""Files in the user's checkout that mirror the store; git ignores them, and they can be deleted at any time.

Beside them the project may keep prompts of its own, which git does not ignore.
"""

from scaffold.core.model import Run
from scaffold.host.files import write_atomic
from scaffold.worker.projection import project_contracts
from scaffold.worker.site import Site


def project(site: Site, run: Run) -> None:
    """Write `.scaffold/.gitignore` and the contracts of a run; raises OSError where the checkout cannot be written."""
    folder = site.projections
    write_atomic(folder / ".gitignore", b"*\n!/prompts/\n!/prompts/*.md\n")
    for action in site.store.actions.of_run(run.id):
        project_contracts(site, action.id)
