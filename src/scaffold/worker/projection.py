"""Contracts as files in the user's checkout: a mirror for people and scripts, which nobody reads back."""

import msgspec

from scaffold.core.contract import Contract
from scaffold.core.ids import ActionId
from scaffold.host.files import write_atomic
from scaffold.plan.planfile import whole_document
from scaffold.worker.site import Site, file_name


def project_contracts(site: Site, action_id: ActionId) -> None:
    """Write `NAME-draft.json` for a draft that is sealed, `NAME.json` for a contract that is final or was given.

    Raises OSError where the checkout cannot be written.
    """
    action = site.store.actions.get(action_id)
    if action is None or action.contract is None:
        return
    name, seals = file_name(action.key), site.store.seals.of_action(action_id)
    if not seals:
        _write(site, name, action.contract)
    for seal in seals:
        _write(site, name if seal.phase == "final" else f"{name}-draft", seal.contract)


def _write(site: Site, name: str, contract: Contract) -> None:
    text = msgspec.json.format(msgspec.json.encode(whole_document(contract)), indent=2)
    write_atomic(site.projections / "contracts" / f"{name}.json", text + b"\n")
