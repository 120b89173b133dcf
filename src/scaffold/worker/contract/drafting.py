"""Drafted contracts: written before the work, sealed out of its reach, and strengthened after it passed."""

import contextlib
from contextlib import nullcontext, suppress

from scaffold.core.errors import CassetteMiss, ModelError
from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Contract, ContractPhase
from scaffold.git import commits
from scaffold.verify.contract.base_checks import BaseCheckResults, CheckResultCache, run_on_base
from scaffold.verify.contract.check_runs import required_names
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.contract.checkout_files import write_contract_files
from scaffold.worker.contract.drafter import (
    ContractDrafter,
    DraftContext,
    NoContract,
    draft_prompt,
    holds_before_work_prompt,
    refine_prompt,
)
from scaffold.worker.workspace.workplace import Workplace

DIFF_BYTES = 64 * 1024


async def check_on_base(place: Workplace, contract: Contract) -> BaseCheckResults:
    """Return the contract's results on the attempt's base; what the attempt began at is checked out afterwards."""
    base, cache = place.workspace.base, CheckResultCache(place.run_context.store, place.baseline)
    tree = await commits.tree_of(place.workspace.git, base)
    # A reset of the worktree takes several git processes; with all results known, no check has touched it.
    all_cached = all(cache.recall_at_base(check, tree) for check in contract.commands)
    async with nullcontext() if all_cached else place.base_checked_out():
        return await run_on_base(contract, place.tree(base), cache)


def try_write_contract_files(records: AttemptRecords) -> None:
    """Write the action's contracts into the checkout, for people; ignore a checkout that cannot be written."""
    with suppress(OSError):
        write_contract_files(records.run_context, records.task.action.id)


async def draft_contract(place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords) -> Contract | None:
    """Have the model draft a contract for the action and seal it; None if the cassette has no drafter.

    A contract that already passes on the base is sent back once, and then accepted. Raises NoContract if no answer
    can be read as a contract.
    """
    drafter = ContractDrafter(place, capabilities, records, "draft")
    baseline = place.run_context.store.baselines.for_run(place.task.run.id)
    context = DraftContext(
        paths=await commits.listed_paths(place.workspace.git, place.workspace.base),
        gates=tuple((run.gate.name, run.gate.command) for run in baseline.runs) if baseline else (),
    )
    try:
        contract = await drafter.contract(draft_prompt(records.task.action, context, records.task.attempt.briefing))
    except CassetteMiss as missing:
        records.warn(f"No contract was drafted: {missing.what}")
        return None
    # A check that passes before the work cannot tell the work from no work, and its facts would be weak.
    if not required_names(contract).intersection((await check_on_base(place, contract)).failed_on_base):
        # A weak contract is better than none: it stays if the second draft is unusable.
        with contextlib.suppress(CassetteMiss, NoContract):
            contract = await drafter.contract(holds_before_work_prompt(contract))
    return _seal_contract(records, "draft", contract)


async def refine_contract(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords, head: Commit
) -> Contract | None:
    """Return the final contract of work that passed its draft: the draft plus the drafter's additions, sealed.

    None for a given or final contract. If the drafter fails, the draft becomes final.
    """
    store, action = records.store, records.task.action
    seal = store.seals.in_force(action.id)
    if seal is None or seal.phase == "final":
        return None
    diff = await commits.diff_text(place.workspace.git, place.workspace.base, head, limit_bytes=DIFF_BYTES)
    # The diff is the agent's, and goes to a model: it may contain a secret that the agent copied into a file.
    prompt = refine_prompt(action, seal.contract, records.redactor.clean(diff))
    try:
        final = await ContractDrafter(place, capabilities, records, "refine").strengthened(seal.contract, prompt)
    except (ModelError, NoContract) as error:
        records.inform(f"The contract of {action.key} stays as drafted: {error.what}")
        final = seal.contract
    return _seal_contract(records, "final", final)


def _seal_contract(records: AttemptRecords, phase: ContractPhase, contract: Contract) -> Contract:
    store = records.store
    # A worker that was replaced must not seal a contract for the attempt that follows it.
    with records.transaction(durable=True) as attempt:
        # An attempt that died after sealing leaves its contract to the next one;
        # a second draft could ask for something else.
        existing = next((seal for seal in store.seals.for_action(attempt.action_id) if seal.phase == phase), None)
        seal = existing or store.seals.add(attempt.action_id, phase, contract)
    try_write_contract_files(records)
    return seal.contract
