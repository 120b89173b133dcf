"""Contracts that nobody gave: drafted before the work, sealed beyond its reach, and strengthened once it has passed."""

from contextlib import suppress

from scaffold.core.contract import Contract, SealPhase
from scaffold.core.errors import ModelTrouble, Unwritten
from scaffold.core.gates import CheckEnvironment
from scaffold.core.ids import ActionId, Commit
from scaffold.core.model import Attempt
from scaffold.core.ports import Model
from scaffold.git import commit, worktree
from scaffold.store.database import Store
from scaffold.verify.contract import required_names
from scaffold.verify.witness import Memory, Witness, recalled, red_on_base, timed
from scaffold.worker.draft_prompt import Backdrop, draft_prompt, refine_prompt, telling_nothing
from scaffold.worker.drafter import Drafter, NoContract
from scaffold.worker.notice import inform, warn
from scaffold.worker.projection import project_contracts
from scaffold.worker.station import Station

DIFF_BYTES = 64 * 1024


def contract_in_force(store: Store, action_id: ActionId) -> Contract | None:
    """Return what an action is held to, as it stands in the store just now; None if nobody wrote a contract.

    StoreTrouble if what was sealed is not what stands there.
    """
    seal = store.seals.in_force(action_id)
    if seal is not None:
        return seal.contract
    action = store.actions.get(action_id)
    return None if action is None else action.contract


def patient_contract(store: Store, attempt: Attempt, environment: CheckEnvironment | None) -> Contract | None:
    """Return the contract in force of an attempt's action, its checks with the time they took on the attempt's base."""
    contract = contract_in_force(store, attempt.action_id)
    if contract is None:
        return None
    known = Memory(store, environment.fingerprint if environment else "")
    return timed(contract, recalled(contract, attempt.base_sha, known))


async def witness(station: Station, contract: Contract) -> Witness:
    """Return what the contract shows of the attempt's base, whose files the worktree has before and after."""
    base, known = station.workspace.base, memory(station)
    nothing_to_run = all(known.recall(check, base) for check in contract.commands)
    found = await red_on_base(contract, station.tree(base), known)
    if not nothing_to_run:
        await worktree.restore(station.workspace.git, base)
    return found


def memory(station: Station) -> Memory:
    """Return where it is kept what checks show on the environment of the run."""
    store = station.site.store
    baseline = store.baselines.of_run(station.task.run.id)
    return Memory(store, baseline.environment.fingerprint if baseline else "")


def mirror(station: Station) -> None:
    """Write what is sealed or given into the checkout, for people; one that cannot be written has to do without."""
    with suppress(OSError):
        project_contracts(station.site, station.task.action.id)


async def draft(station: Station, model: Model) -> Contract | None:
    """Have a contract written for an action that has none, and seal it; None where the cassette has no drafter.

    One that holds before the work is sent back once; it is taken all the same if it comes again.
    Raises NoContract if no answer can be read as one.
    """
    drafter = Drafter(station, model, "draft")
    try:
        contract = await drafter.contract(
            draft_prompt(station.task.action, await _backdrop(station), station.task.attempt.briefing)
        )
    except Unwritten as missing:
        warn(station.site, station.task.run.id, f"Nobody drafts contracts: {missing.what}")
        return None
    if not required_names(contract).intersection((await witness(station, contract)).red):
        contract = await _once_more(drafter, contract)
    return _seal(station, "draft", contract)


async def _once_more(drafter: Drafter, weak: Contract) -> Contract:
    """Return another contract than one that holds without the work, if its drafter has one."""
    try:
        return await drafter.contract(telling_nothing(weak))
    except (Unwritten, NoContract):
        return weak


async def refine(station: Station, model: Model, head: Commit) -> Contract | None:
    """Return the final contract of work that has passed: the draft, and what its drafter adds now that it sees it.

    Nobody is asked where the contract was given, or is final. No work is lost for want of a drafter: the draft stands.
    """
    store, action = station.site.store, station.task.action
    seal = store.seals.in_force(action.id)
    if seal is None or seal.phase == "final":
        return contract_in_force(store, action.id)
    diff = await commit.diff_text(station.workspace.git, station.workspace.base, head, limit_bytes=DIFF_BYTES)
    said = refine_prompt(action, seal.contract, station.site.redactor.clean(diff))
    try:
        final = await Drafter(station, model, "refine").strengthened(seal.contract, said)
    except (ModelTrouble, NoContract) as trouble:
        inform(station.site, station.task.run.id, f"The contract of {action.key} stays as drafted: {trouble.what}")
        final = seal.contract
    return _seal(station, "final", final)


async def _backdrop(station: Station) -> Backdrop:
    baseline = station.site.store.baselines.of_run(station.task.run.id)
    return Backdrop(
        paths=await commit.listed_paths(station.workspace.git, station.workspace.base),
        gates=tuple((run.gate.name, run.gate.command) for run in baseline.runs) if baseline else (),
    )


def _seal(station: Station, phase: SealPhase, contract: Contract) -> Contract:
    """Seal a contract, unless one is sealed for that phase already: that one counts then."""
    store, attempt = station.site.store, station.task.attempt
    with store.transaction(durable=True):
        store.attempts.check(attempt.id, fence=attempt.fence)
        held = next((seal for seal in store.seals.of_action(attempt.action_id) if seal.phase == phase), None)
        seal = held or store.seals.add(attempt.action_id, phase, contract)
    mirror(station)
    return seal.contract
