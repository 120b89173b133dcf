"""What waits for a human: one list, the same in every interface."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from builders import begin, git, land, make_context, make_run
from scaffold.acp.editor_session import inbox_answer
from scaffold.cli.repl.orchestrator_profile import inbox_text
from scaffold.core.ids import ActionKey
from scaffold.core.model import InboxItem, ProcessIdentity, Run
from scaffold.core.states import Active, Completed, Failed, Paused, Saved, blocked_on_inbox
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.mcp.run_queries import inbox_json
from scaffold.orchestrator.owner.run_end import fail_run, pause_if_waiting
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.run.context import RunContext
from scaffold.store.driver.location import database_path
from scaffold.store.run.inbox_items import item_hash
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.changes.taken_work import without_taken_now
from scaffold.views.store_reader import StoreReader
from scaffold.views.waiting import read_waiting
from scaffold.views.waiting_of_user import read_waiting_everywhere, read_waiting_here

GONE = ProcessIdentity(2**22 + 7, "long ago", "boot")
KINDS = ("saved", "failed", "finished", "paused", "interrupted", "approval", "question")


def asked(context: RunContext, run: Run, item_id: str, kind: str, **fields: object) -> InboxItem:
    action = context.store.actions.by_key(run.id, ActionKey("store"))
    given = {"text": "Which word?", "detail": {"n": item_id}, "created_at": context.clock.now()} | fields
    item = InboxItem(id=item_id, run_id=run.id, goal_id=action.goal_id, action_id=action.id, kind=kind, **given)
    with context.store.transaction():
        return context.store.inbox.ask(item)


def ended(context: RunContext, plan: str, state: object) -> Run:
    run = make_run(context, plan)
    with context.store.transaction():
        context.store.runs.move(run.id, state if isinstance(state, Saved) else Active())
        if not isinstance(state, Saved | Active):
            context.store.runs.move(run.id, state)
    return context.store.runs.get(run.id)


@pytest.fixture
def everything(context: RunContext, plan: str) -> dict[str, str]:
    """A repository in which one of each kind waits, in the order of `KINDS`; the ids by kind."""
    ids = {"saved": ended(context, plan, Saved()).id}
    ids["failed"] = ended(context, plan, Failed("shop: the tests fail")).id
    finished = begin(context, make_run(context, plan))
    land(context, finished, "store", {"store.py": "x = 1\n"})
    with context.store.transaction():
        context.store.runs.move(finished.id, Completed())
        context.store.runs.release(finished.id, fence=finished.fence)
    ids["finished"] = finished.id
    ids["paused"] = ended(context, plan, Paused("stopped by the user")).id
    lost = ended(context, plan, Active())
    with context.store.transaction():
        context.store.runs.take(lost.id, GONE, expected_fence=lost.fence)
    ids["interrupted"] = lost.id
    running = begin(context, make_run(context, plan))
    ids["approval"] = asked(context, running, "approval-1", "approval", text="shell wants to run `make deploy`").id
    choices = {"choices": {"retry": "again", "fail": "give it up"}}
    ids["question"] = asked(context, running, "question-1", "question", text="How to go on?", detail=choices).id
    return ids


def reader_of(context: RunContext) -> StoreReader:
    return StoreReader(context.store, WallClock(), context.root)


def test_everything_that_waits_is_one_list_oldest_first(context: RunContext, everything: dict[str, str]) -> None:
    """BX-25: items, and runs that only a human gets on; each with who asks, what it holds up, and how to decide."""
    found = read_waiting(reader_of(context))
    assert [(entry.kind, entry.id) for entry in found] == [(kind, everything[kind]) for kind in KINDS]
    assert sorted(found, key=lambda entry: entry.since) == list(found)
    assert {entry.repository for entry in found} == {context.root}
    by_kind = {entry.kind: entry for entry in found}
    assert list(by_kind["approval"].choices) == ["approve", "reject"]
    assert by_kind["question"].commands == ("scaffold answer question-1 retry", "scaffold answer question-1 fail")
    assert by_kind["question"].who == by_kind["question"].holds_up == "store"
    assert by_kind["question"].binds == item_hash(by_kind["question"].item)
    assert list(by_kind["saved"].choices) == ["resume", "cancel"]
    assert list(by_kind["failed"].choices) == ["retry", "cancel"]
    assert list(by_kind["finished"].choices) == ["review", "land"]
    assert by_kind["failed"].line == f"the run: run {everything['failed']} failed: shop: the tests fail"
    assert by_kind["paused"].age(by_kind["paused"].since + timedelta(minutes=3)) == "3 m ago"


def test_a_run_that_its_questions_pause_is_not_listed_beside_them(context: RunContext, run: Run) -> None:
    """BX-25: one thing to decide is one entry; once it is decided, the run waits to be resumed."""
    item = asked(context, run, "question-1", "question")
    with context.store.transaction():
        action = context.store.actions.by_key(run.id, ActionKey("store"))
        context.store.actions.block({action.id: blocked_on_inbox(item.id).reason})
    assert pause_if_waiting(context.store, run)
    assert [entry.kind for entry in read_waiting(reader_of(context))] == ["question"]
    with context.store.transaction():
        context.store.inbox.decide(item.id, "answered", answer="one")
    (entry,) = read_waiting(reader_of(context), run)
    assert (entry.kind, entry.choices["resume"]) == ("paused", f"scaffold resume {run.id}")
    assert entry.text == f"run {run.id} is paused: nothing that it waited for is open any more"


def test_finished_work_waits_until_git_has_it_or_its_branch_is_gone(
    context: RunContext, everything: dict[str, str], plan: str
) -> None:
    """BX-25: however it was taken; a user who deletes the session branch has decided, too."""
    root = context.root

    def kinds() -> list[str]:
        return [each.kind for each in without_taken_now(read_waiting_here(reader_of(context), WallClock()))]

    assert "finished" in kinds()
    branch = context.store.runs.get(everything["finished"]).session_branch
    git(root, "merge", "--ff-only", branch)
    assert "finished" not in kinds()
    git(root, "reset", "--hard", "HEAD~1")
    assert "finished" in kinds()
    git(root, "branch", "-D", branch)
    assert "finished" not in kinds()


def test_what_waits_in_all_repositories_of_a_user_is_read_together(
    context: RunContext, plan: str, tmp_path: Path
) -> None:
    """BX-25: whoever owned a run has remembered its repository; one that cannot be read is named, one gone is not."""
    run = make_run(context, plan)
    take_over_run(context, run.id)
    user = UserStore.open(user_database(user_dirs().data), clock=WallClock())
    try:
        assert user.repositories.roots() == (context.root,)
        broken = tmp_path / "broken"
        git(tmp_path, "init", "-q", str(broken))
        (broken / ".git" / "scaffold").mkdir()
        (broken / ".git" / "scaffold" / "state.db").write_text("not a database\n" * 100)
        with user.transaction():
            user.repositories.remember(broken / ".git", broken)
            user.repositories.remember(tmp_path / "gone" / ".git", tmp_path / "gone")
        fail_run(context.store, context.store.runs.get(run.id), "no plan")
        entries, unread = read_waiting_everywhere(WallClock(), {})
    finally:
        user.close()
    assert [(entry.kind, entry.repository) for entry in entries] == [("failed", context.root)]
    assert [each.repository for each in unread] == [broken]


def made_older(context: RunContext, ids: dict[str, str]) -> None:
    """Let each entry wait since so many days as it has entries behind it."""
    context.store.close()
    with closing(sqlite3.connect(database_path(context.repository.common_dir))) as database, database:
        for days, kind in enumerate(reversed(KINDS), start=2):
            at = (WallClock().now() - timedelta(days=days, hours=1)).isoformat()
            table, column = ("inbox", "created_at") if kind in {"approval", "question"} else ("run", "updated_at")
            database.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (at, ids[kind]))


def test_every_interface_shows_the_same_list_in_the_same_words(
    context: RunContext, everything: dict[str, str], scaffold
) -> None:
    """BX-25: one queue, oldest first, the same in the terminal, for programs, in the REPL and in editors."""
    made_older(context, everything)
    user = UserStore.open(user_database(user_dirs().data), clock=WallClock())
    with closing(user), user.transaction():
        user.repositories.remember(context.repository.common_dir, context.root)
    listed = scaffold("inbox", "--json").json
    waiting = listed["waiting"]
    assert [entry["id"] for entry in waiting] == [everything[kind] for kind in KINDS]
    assert [entry["age"] for entry in waiting] == [f"{days} d ago" for days in range(8, 1, -1)]
    assert [item["id"] for item in listed["inbox"]] == [everything["approval"], everything["question"]]
    served = asyncio.run(inbox_json(context.root))
    assert served["waiting"] == waiting
    again = make_context(context.root)
    try:
        screens = [
            scaffold("inbox").out,
            scaffold("inbox", "--everywhere").out,
            asyncio.run(inbox_text(again)),
            asyncio.run(inbox_answer(context.root)),
        ]
    finally:
        again.store.close()
    for screen in screens:
        words = " ".join(screen.split())
        places = [words.index(entry["id"]) for entry in waiting]
        assert places == sorted(places), screen
        for entry in waiting:
            assert entry["text"] in words, screen
            assert entry["age"] in words, screen
            assert all(command in words for command in entry["choices"].values()), screen
    running = next(entry["run"] for entry in waiting if entry["kind"] == "question")
    status = scaffold("status", running)
    for entry in waiting[-2:]:
        assert f"  {entry['id']}  {entry['who']}, {entry['age']}: {entry['text']}" in status.out
    (only,) = scaffold("inbox", everything["saved"], "--json").json["waiting"]
    assert only == waiting[0]
