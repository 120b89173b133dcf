"""The contract in force for an action."""

from scaffold.core.ids import ActionId
from scaffold.core.model import Attempt
from scaffold.core.proof.contract import Contract
from scaffold.core.proof.gates import Baseline
from scaffold.git import commits
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.verify.contract.base_checks import CheckResultCache, recall_results, with_timeouts


def contract_in_force(store: Store, action_id: ActionId) -> Contract | None:
    """Return the action's current contract, a sealed one first; None if it has none.

    Raises StoreError if a sealed contract was altered.
    """
    seal = store.seals.in_force(action_id)
    if seal is not None:
        return seal.contract
    action = store.actions.get(action_id)
    return None if action is None else action.contract


async def contract_with_timings(context: RunContext, attempt: Attempt, baseline: Baseline | None) -> Contract | None:
    """Return the contract in force, with timeouts based on the checks' times on the attempt's base."""
    contract = contract_in_force(context.store, attempt.action_id)
    if contract is None:
        return None
    base = await commits.tree_of(context.git, attempt.base_sha)
    return with_timeouts(contract, recall_results(contract, base, CheckResultCache(context.store, baseline)))
