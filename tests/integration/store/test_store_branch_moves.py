"""Branch moves: open before they happen, then done or dropped."""

from datetime import UTC, datetime

from builders import an_action, store_run
from scaffold.core.ids import Commit
from scaffold.core.landing.branch_move import BranchMove, MovePurpose, TakenCommit
from scaffold.store.database import Store

RUN = "run-1"
OLD, NEW = Commit("a" * 40), Commit("b" * 40)


def _move(name: str, purpose: MovePurpose = "ff") -> BranchMove:
    return BranchMove(
        id=name,
        run_id=RUN,
        purpose=purpose,
        branch="main",
        head=NEW,
        old=OLD,
        new=NEW,
        commits=(TakenCommit(old=NEW, new=NEW, action="x", subject="make it"),),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def _settle(store: Store, name: str, *, done: bool, url: str = "") -> None:
    with store.transaction():
        store.branch_moves.settle(name, done=done, url=url)


def test_a_move_is_open_until_it_is_known_to_have_happened(store):
    """BX-2: a command that died in between leaves an open row, with all that is needed to find out."""
    store_run(store, an_action("x"))
    with store.transaction(durable=True):
        store.branch_moves.add(_move("one"))
        store.branch_moves.add(_move("two", "pr"))
    assert store.branch_moves.open_of_run(RUN) == (_move("one"), _move("two", "pr"))
    assert store.branch_moves.done_of_run(RUN) == ()
    _settle(store, "one", done=False)
    _settle(store, "two", done=True, url="https://example.invalid/1")
    assert store.branch_moves.open_of_run(RUN) == ()
    (done,) = store.branch_moves.done_of_run(RUN)
    assert (done.id, done.url, done.takes_work) == ("two", "https://example.invalid/1", True)
    assert done.commits == _move("two").commits
    assert len(store.branch_moves.for_run(RUN)) == 2


def test_who_saw_the_branch_move_is_right(store):
    """BX-15: a second command may have dropped a move that was still happening; done is never taken back."""
    store_run(store, an_action("x"))
    with store.transaction(durable=True):
        store.branch_moves.add(_move("one"))
    _settle(store, "one", done=False)
    _settle(store, "one", done=True)
    _settle(store, "one", done=False)
    assert [each.id for each in store.branch_moves.done_of_run(RUN)] == ["one"]
