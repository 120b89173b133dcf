"""Contracts as they were sealed: written once for each phase, kept where no worker can reach them."""

import hashlib

from scaffold.core.contract import Contract, Seal, SealPhase
from scaffold.core.errors import StoreTrouble
from scaffold.core.events import ContractSealed
from scaffold.core.ids import ActionId
from scaffold.store.columns import Calendar, Json, stamp
from scaffold.store.connection import Connection, Row
from scaffold.store.events import Events
from scaffold.store.refusals import illegal_move

ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD = """
INSERT INTO seal (action_id, phase, body, sha256, created_at) VALUES (:action_id, :phase, :body, :digest, :at)
ON CONFLICT (action_id, phase) DO NOTHING
"""
GIVE = "UPDATE action SET contract = :body WHERE id = :action_id"
OF_ACTION = "SELECT * FROM seal WHERE action_id = :action_id ORDER BY phase"

SEALED = Json[Contract](Contract)


class Seals:
    """At most one draft and one final contract of each action; what is sealed is never changed."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def add(self, action_id: ActionId, phase: SealPhase, contract: Contract) -> Seal:
        """Seal a contract, which is the action's from now on; the same twice changes nothing.

        IllegalMove if another one is sealed for that phase.
        """
        body = SEALED.write(contract) or ""
        digest = _digest(body)
        held = next((seal for seal in self.of_action(action_id) if seal.phase == phase), None)
        if held is not None:
            if held.sha256 != digest:
                raise illegal_move("contract", action_id, f"sealed as {held.sha256[:12]}", digest[:12])
            return held
        row = self._connection.held(ACTION, "action", action_id)
        at = stamp(self._clock.now())
        self._connection.write(ADD, action_id=action_id, phase=phase, body=body, digest=digest, at=at)
        self._connection.write(GIVE, action_id=action_id, body=body)
        checks = len(contract.commands) + len(contract.must_exist + contract.must_not_exist + contract.must_not_change)
        self._events.append(row["run_id"], ContractSealed(row["key"], phase, digest, checks))
        return Seal(phase=phase, contract=contract, sha256=digest)

    def in_force(self, action_id: ActionId) -> Seal | None:
        """Return what the action is held to: its final contract, or its draft; None for a contract that was given.

        StoreTrouble if it is not what was sealed.
        """
        seals = self.of_action(action_id)
        if not seals:
            return None
        seal = seals[-1]
        if _digest(SEALED.write(seal.contract) or "") != seal.sha256:
            what = f"the {seal.phase} contract of action {action_id!r} is not what was sealed as {seal.sha256[:12]}"
            raise StoreTrouble(what, "Somebody wrote into the database: start a new run of this work.")
        return seal

    def of_action(self, action_id: ActionId) -> tuple[Seal, ...]:
        """Return what is sealed for the action, the draft first; empty for a contract that was given."""
        return tuple(map(_seal, self._connection.rows(OF_ACTION, action_id=action_id)))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _seal(row: Row) -> Seal:
    return Seal(phase=row["phase"], contract=SEALED.read(row["body"]), sha256=row["sha256"])
