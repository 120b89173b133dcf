"""What the work of an attempt is held to, and whether it passes: in its worktree, made clean for it."""

from functools import partial

import msgspec

from scaffold.core.contract import Contract, Verification
from scaffold.core.errors import BudgetSpent
from scaffold.core.gates import GateRun
from scaffold.core.ids import Commit
from scaffold.core.ports import Model
from scaffold.git import commit, worktree
from scaffold.policy.areas import Areas
from scaffold.verify.contract import required_names
from scaffold.verify.environment.furnishing import furnished_anew
from scaffold.verify.hindsight import brought, still_red
from scaffold.verify.proof import Standard, prove
from scaffold.verify.testlike import is_test
from scaffold.verify.witness import Witness, timed
from scaffold.worker.assignment import TESTING
from scaffold.worker.drafting import contract_in_force, draft, mirror, refine, witness
from scaffold.worker.notice import warn
from scaffold.worker.station import Station
from scaffold.worker.workspace import set_aside


class Proof:
    """The proof of one attempt's work; its contract is read from the store each time, where no agent reaches it."""

    def __init__(self, station: Station, model: Model, witness: Witness | None) -> None:
        """Go by what was seen of the base; None where there is nothing to see."""
        self._station = station
        self._model = model
        self._witness = witness

    @classmethod
    async def begun(cls, station: Station, model: Model) -> "Proof":
        """Return the proof of work that has not begun: its contract is drafted if it has none, and seen to fail."""
        mirror(station)  # whoever sealed the contract may have died before it wrote that
        contract = contract_in_force(station.site.store, station.task.action.id)
        if contract is None and station.task.run.settings.drafter:
            contract = await draft(station, model)
        if contract is None or contract.empty:
            return cls(station, model, None)
        return cls(station, model, await witness(station, contract))

    @property
    def contract(self) -> Contract | None:
        """The contract in force; None where nobody gave one."""
        return contract_in_force(self._station.site.store, self._station.task.action.id)

    async def of(self, head: Commit) -> Verification:
        """Verify the commit as if it had just been checked out, furnished as every checkout is.

        What the checks of work that passes leave behind stays; where it does not pass, the work goes on as committed.
        """
        git, path = self._station.workspace.git, self._station.workspace.path
        async with furnished_anew(self._station.environment, path):
            await worktree.renew(git, head)
        verification = await prove(self._standard(head), self._station.tree(head))
        if not verification.passed:
            await worktree.restore(git, head)
        return await self._in_hindsight(verification)

    async def _in_hindsight(self, found: Verification) -> Verification:
        """Return what was found without the checks that only the work's own tests turned green, true without it."""
        station, contract = self._station, self._patient
        if not (found.passed and found.red) or contract is None:
            return found
        changes = await commit.changes(station.workspace.git, station.workspace.base, found.commit)
        if station.task.action.role == TESTING and all(is_test(change.path) for change in changes):
            return found  # the tests are the work, of something that was there before
        if not brought(changes):
            return found
        async with set_aside(station.site, station.task.attempt.id, found.commit):
            red = await still_red(contract, found.red, changes, station.tree(found.commit))
        weak = found.weak or required_names(contract).isdisjoint(red)
        return msgspec.structs.replace(found, red=red, weak=weak)

    async def strengthened(self, passed: Verification) -> Verification:
        """Have the contract strengthened now that the work has passed it, and verify again if more is asked for."""
        before = self.contract
        try:
            after = await refine(self._station, self._model, passed.commit)
        except BudgetSpent as spent:
            key = self._station.task.action.key
            warn(self._station.site, self._station.task.run.id, f"The contract of {key} stays as drafted: {spent.what}")
            return passed
        if after is None or after == before:
            return passed
        async with set_aside(self._station.site, self._station.task.attempt.id, passed.commit):
            self._witness = await self._seen_before(after)
            return await self.of(passed.commit)

    async def _seen_before(self, contract: Contract) -> Witness:
        """Return what the contract shows of the base, which takes the place of the work in the worktree."""
        workspace = self._station.workspace
        async with furnished_anew(self._station.environment, workspace.path):
            await worktree.renew(workspace.git, workspace.base)
        return await witness(self._station, contract)

    @property
    def _patient(self) -> Contract | None:
        """The contract in force, its checks with the time in mind that they took on the base."""
        contract, witness = self.contract, self._witness
        return timed(contract, witness) if contract and witness else contract

    def _standard(self, head: Commit) -> Standard:
        settings, witness = self._station.task.run.settings, self._witness
        return Standard(
            contract=self._patient,
            files=self._station.task.action.files,
            areas=Areas.with_added(settings.areas),
            red=witness.red if witness else None,
            baseline=self._station.baseline if settings.gates else None,
            tagged=settings.tagged,
            gates_off=settings.gates_off,
            gate_timeout_s=settings.gate_timeout_s,
            slots=self._station.site.slots(settings.gate_slots),
            find=self._station.site.store.baselines.find,
            keep=self._keep,
            aside=partial(set_aside, self._station.site, self._station.task.attempt.id, head),
        )

    def _keep(self, run: GateRun) -> None:
        """Keep a whole run of a gate for whoever asks about the same commit."""
        store, attempt = self._station.site.store, self._station.task.attempt
        with store.transaction():
            store.attempts.check(attempt.id, fence=attempt.fence)
            store.baselines.keep(run)
