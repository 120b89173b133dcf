"""Sealed contracts: one for each phase, and any later change is detected."""

import hashlib

import pytest

from builders import an_action, events_of, store_run
from scaffold.core.errors import IllegalTransition, StoreError
from scaffold.core.events import ContractSealed
from scaffold.core.proof.contract import Check, Contract
from scaffold.store.database import Store

DRAFT = Contract(intent="it adds", commands=(Check(command="true"),), must_exist=("a.py",))
FINAL = Contract(intent="it adds", commands=(Check(command="true"), Check(command="test -f a.py")))
ACTION = "run-1/x"


@pytest.fixture
def store(store: Store) -> Store:
    store_run(store, an_action("x"))
    return store


def _seal(store: Store, phase: str, contract: Contract) -> None:
    with store.transaction():
        store.seals.add(ACTION, phase, contract)


def test_the_final_contract_applies_once_there_is_one(store: Store) -> None:
    """AL-7: until then the draft, or the given one if nothing was sealed."""
    assert store.seals.in_force(ACTION) is None
    _seal(store, "draft", DRAFT)
    assert store.seals.in_force(ACTION).contract == store.actions.get(ACTION).contract == DRAFT
    _seal(store, "final", FINAL)
    assert store.seals.in_force(ACTION).contract == store.actions.get(ACTION).contract == FINAL
    assert [(seal.phase, seal.contract) for seal in store.seals.for_action(ACTION)] == [
        ("draft", DRAFT),
        ("final", FINAL),
    ]


def test_a_contract_is_sealed_once(store: Store) -> None:
    """BX-5: the same contract again changes nothing, another one is refused."""
    _seal(store, "draft", DRAFT)
    _seal(store, "draft", DRAFT)
    with pytest.raises(IllegalTransition):
        _seal(store, "draft", FINAL)
    sealed = [event for event in events_of(store) if isinstance(event, ContractSealed)]
    assert [(event.action, event.phase, event.checks) for event in sealed] == [("x", "draft", 2)]


def test_a_changed_sealed_contract_is_rejected(store: Store) -> None:
    """BX-5: hashed before work; a write into the database is detected."""
    _seal(store, "draft", DRAFT)
    with store.transaction():
        store._connection.write(
            "UPDATE sealed_contract SET body = :body WHERE phase = 'draft'", body='{"intent":"nothing"}'
        )
    with pytest.raises(StoreError, match="seal"):
        store.seals.in_force(ACTION)


def test_a_seal_holds_for_the_stored_text_whatever_this_version_would_write(store: Store) -> None:
    """BX-5: a version with more fields than the one that sealed the contract still accepts it."""
    _seal(store, "draft", DRAFT)
    shorter = '{"intent":"it adds"}'
    with store.transaction():
        store._connection.write(
            "UPDATE sealed_contract SET body = :body, sha256 = :digest WHERE phase = 'draft'",
            body=shorter,
            digest=hashlib.sha256(shorter.encode()).hexdigest(),
        )
    assert store.seals.in_force(ACTION).contract == Contract(intent="it adds")
