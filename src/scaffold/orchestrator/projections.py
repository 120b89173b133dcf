"""Files in the user's checkout that mirror the store; git ignores them, and they can be deleted at any time.

Beside them the project may keep prompts of its own, which git does not ignore.
"""

import msgspec

from scaffold.core.model import Run
from scaffold.host.files import write_atomic
from scaffold.worker.site import Site, file_name


def project(site: Site, run: Run) -> None:
    """Write `.scaffold/.gitignore` and the contracts of a run; raises OSError where the checkout cannot be written."""
    folder = site.projections
    write_atomic(folder / ".gitignore", b"*\n!/prompts/\n!/prompts/*.md\n")
    for action in site.store.actions.of_run(run.id):
        if action.contract is not None:
            text = msgspec.json.format(msgspec.json.encode(action.contract), indent=2)
            write_atomic(folder / "contracts" / f"{file_name(action.key)}.json", text + b"\n")
