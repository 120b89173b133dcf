"""Drafted contracts: written before the work, sealed out of its reach, and strengthened after it passed."""

from contextlib import nullcontext, suppress

from scaffold.core.errors import CassetteMiss, ModelError
from scaffold.core.ids import Commit
from scaffold.core.ports import Model
from scaffold.core.proof.contract import Contract, ContractPhase
from scaffold.git import commits
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.run.notices import inform, warn
from scaffold.verify.contract.base_checks import BaseCheckResults, CheckResultCache, run_on_base
from scaffold.verify.contract.check_runs import required_names
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.contract.checkout_files import write_contract_files
from scaffold.worker.contract.drafter import ContractDrafter, NoContract
from scaffold.worker.contract.drafter_prompts import DraftContext, draft_prompt, holds_before_work_prompt, refine_prompt

DIFF_BYTES = 64 * 1024


async def check_on_base(context: AttemptContext, contract: Contract) -> BaseCheckResults:
    """Return the contract's results on the attempt's base; what the attempt began at is checked out afterwards."""
    base, cache = context.workspace.base, CheckResultCache(context.run_context.store, context.baseline)
    tree = await commits.tree_of(context.workspace.git, base)
    # A reset of the worktree takes several git processes; with all results known, no check has touched it.
    all_cached = all(cache.recall_at_base(check, tree) for check in contract.commands)
    async with nullcontext() if all_cached else context.base_checked_out():
        return await run_on_base(contract, context.tree(base), cache)


def try_write_contract_files(context: AttemptContext) -> None:
    """Write the action's contracts into the checkout, for people; ignore a checkout that cannot be written."""
    with suppress(OSError):
        write_contract_files(context.run_context, context.task.action.id)


async def draft_contract(context: AttemptContext, model: Model) -> Contract | None:
    """Have the model draft a contract for the action and seal it; None if the cassette has no drafter.

    A contract that already passes on the base is sent back once, and then accepted. Raises NoContract if no answer
    can be read as a contract.
    """
    drafter = ContractDrafter(context, model, "draft")
    try:
        contract = await drafter.contract(
            draft_prompt(context.task.action, await _draft_context(context), context.task.attempt.briefing)
        )
    except CassetteMiss as missing:
        warn(context.run_context, context.task.run.id, f"No contract was drafted: {missing.what}")
        return None
    # A check that passes before the work cannot tell the work from no work, and its facts would be weak.
    if not required_names(contract).intersection((await check_on_base(context, contract)).failed_on_base):
        contract = await _redraft(drafter, contract)
    return _seal(context, "draft", contract)


async def _redraft(drafter: ContractDrafter, weak: Contract) -> Contract:
    """Ask for a contract that fails before the work; return `weak` if there is no other."""
    try:
        return await drafter.contract(holds_before_work_prompt(weak))
    except (CassetteMiss, NoContract):
        return weak


async def refine_contract(context: AttemptContext, model: Model, head: Commit) -> Contract | None:
    """Return the final contract of work that passed its draft: the draft plus the drafter's additions, sealed.

    A given or final contract is returned unchanged. If the drafter fails, the draft becomes final.
    """
    store, action = context.run_context.store, context.task.action
    seal = store.seals.in_force(action.id)
    if seal is None or seal.phase == "final":
        return contract_in_force(store, action.id)
    diff = await commits.diff_text(context.workspace.git, context.workspace.base, head, limit_bytes=DIFF_BYTES)
    # The diff is the agent's, and goes to a model: it may contain a secret that the agent copied into a file.
    prompt = refine_prompt(action, seal.contract, context.run_context.redactor.clean(diff))
    try:
        final = await ContractDrafter(context, model, "refine").strengthened(seal.contract, prompt)
    except (ModelError, NoContract) as error:
        inform(context.run_context, context.task.run.id, f"The contract of {action.key} stays as drafted: {error.what}")
        final = seal.contract
    return _seal(context, "final", final)


async def _draft_context(context: AttemptContext) -> DraftContext:
    baseline = context.run_context.store.baselines.of_run(context.task.run.id)
    return DraftContext(
        paths=await commits.listed_paths(context.workspace.git, context.workspace.base),
        gates=tuple((run.gate.name, run.gate.command) for run in baseline.runs) if baseline else (),
    )


def _seal(context: AttemptContext, phase: ContractPhase, contract: Contract) -> Contract:
    """Seal the contract for a phase and return it; return the sealed one if the phase already has one."""
    store, attempt = context.run_context.store, context.task.attempt
    with store.transaction(durable=True):
        # A worker that was replaced must not seal a contract for the attempt that follows it.
        store.attempts.check(attempt.id, fence=attempt.fence)
        # An attempt that died after sealing leaves its contract to the next one;
        # a second draft could ask for something else.
        existing = next((seal for seal in store.seals.of_action(attempt.action_id) if seal.phase == phase), None)
        seal = existing or store.seals.add(attempt.action_id, phase, contract)
    try_write_contract_files(context)
    return seal.contract
