"""Sealed contracts: written once per phase and kept where no worker can change them."""

import hashlib

from scaffold.core.errors import StoreError
from scaffold.core.events import ContractSealed
from scaffold.core.ids import ActionId
from scaffold.core.proof.contract import Contract, ContractPhase, SealedContract
from scaffold.store.driver.columns import JsonColumn, format_time
from scaffold.store.driver.connection import Row
from scaffold.store.row_errors import illegal_transition
from scaffold.store.run.event_log import RunTableGateway

ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD = """
INSERT INTO sealed_contract (action_id, phase, body, sha256, created_at)
VALUES (:action_id, :phase, :body, :digest, :at)
ON CONFLICT (action_id, phase) DO NOTHING
"""
SET_ACTION_CONTRACT = "UPDATE action SET contract = :body WHERE id = :action_id"
OF_ACTION = "SELECT * FROM sealed_contract WHERE action_id = :action_id ORDER BY phase"

CONTRACT_JSON = JsonColumn[Contract](Contract)


class SealedContracts(RunTableGateway):
    """At most one draft and one final contract per action; a sealed contract never changes."""

    def add(self, action_id: ActionId, phase: ContractPhase, contract: Contract) -> SealedContract:
        """Seal a contract and make it the action's current one; safe to repeat.

        Raises IllegalTransition if a different contract is sealed for that phase.
        """
        body = CONTRACT_JSON.write(contract) or ""
        digest = _digest(body)
        existing = next((seal for seal in self.of_action(action_id) if seal.phase == phase), None)
        if existing is not None:
            if existing.sha256 != digest:
                raise illegal_transition("contract", action_id, f"sealed as {existing.sha256[:12]}", digest[:12])
            return existing
        row = self._connection.require_row(ACTION, "action", action_id)
        at = format_time(self._clock.now())
        self._connection.write(ADD, action_id=action_id, phase=phase, body=body, digest=digest, at=at)
        self._connection.write(SET_ACTION_CONTRACT, action_id=action_id, body=body)
        checks = len(contract.commands) + len(contract.must_exist + contract.must_not_exist + contract.must_not_change)
        self._events.append(row["run_id"], ContractSealed(row["key"], phase, digest, checks))
        return SealedContract(phase=phase, contract=contract, sha256=digest)

    def in_force(self, action_id: ActionId) -> SealedContract | None:
        """Return the action's final contract, else its draft; None if it was given in the plan and not sealed.

        Raises StoreError if it differs from what was sealed.
        """
        rows = self._connection.rows(OF_ACTION, action_id=action_id)
        if not rows:
            return None
        # Sorted by phase: `draft` comes before `final`.
        seal = _seal(rows[-1])
        # The stored text: what a newer version would write for the same contract may have more fields.
        if _digest(rows[-1]["body"]) != seal.sha256:
            what = f"the {seal.phase} contract of action {action_id!r} does not match its seal {seal.sha256[:12]}"
            raise StoreError(what, "The database was changed by another program. Start a new run for this work.")
        return seal

    def of_action(self, action_id: ActionId) -> tuple[SealedContract, ...]:
        """Return the action's sealed contracts, the draft first; empty if its contract was given in the plan."""
        return tuple(map(_seal, self._connection.rows(OF_ACTION, action_id=action_id)))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _seal(row: Row) -> SealedContract:
    return SealedContract(phase=row["phase"], contract=CONTRACT_JSON.read(row["body"]), sha256=row["sha256"])
