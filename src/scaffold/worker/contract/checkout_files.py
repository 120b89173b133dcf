"""Contracts as files in the user's checkout: a mirror for people and scripts, never read back."""

import msgspec

from scaffold.config.folder_trust import IGNORED, PROJECT_PROMPTS
from scaffold.core.ids import ActionId
from scaffold.core.model import Run
from scaffold.core.proof.contract import Contract
from scaffold.host.contained_path import require_ours
from scaffold.plan.text.file_format import full_contract_document
from scaffold.policy.trust_decision import LOCAL_SETTINGS_FILE
from scaffold.run.context import RunContext, safe_file_name


def write_contract_files(context: RunContext, action_id: ActionId) -> None:
    """Write `NAME-draft.json` for a sealed draft, `NAME.json` for a final or given contract.

    Raises OSError if the checkout cannot be written.
    """
    action = context.store.actions.get(action_id)
    if action is None or action.contract is None:
        return
    name, seals = safe_file_name(action.key), context.store.seals.for_action(action_id)
    if not seals:
        _write_file(context, name, action.contract)
    for seal in seals:
        _write_file(context, name if seal.phase == "final" else f"{name}-draft", seal.contract)


def _write_file(context: RunContext, name: str, contract: Contract) -> None:
    text = msgspec.json.format(msgspec.json.encode(full_contract_document(contract)), indent=2)
    (context.projections / f"contracts/{name}.json").write(text + b"\n")


def ignore_projections(context: RunContext) -> None:
    """Write the file that makes git ignore the projections; raises OSError if that is impossible."""
    (context.projections / ".gitignore").write(IGNORED)


def write_projections(context: RunContext, run: Run) -> None:
    """Write `.scaffold/.gitignore` and the contracts of a run.

    Raises OSError if that is impossible, or if there is a link, a file of another user and the like where the run would
    write later.
    """
    ignore_projections(context)
    for action in context.store.actions.for_run(run.id):
        write_contract_files(context, action.id)
    for path, status in context.projections.entries():
        # These are read only, and as far as the user trusts them.
        if not path.name.startswith((PROJECT_PROMPTS, LOCAL_SETTINGS_FILE)):
            require_ours(path, status)
