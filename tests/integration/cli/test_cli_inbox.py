"""`inbox`, `approve`, `reject`, `answer`: items that wait for a human, and the effect of a decision."""

from datetime import timedelta

from inline_snapshot import snapshot

from scaffold.core.ids import ActionKey
from scaffold.core.model import InboxItem, Run
from scaffold.core.states import blocked_on_inbox
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.run.context import RunContext

ESCAPE = "\x1b[2K"


def approval(context: RunContext, run: Run, item_id: str, **fields) -> InboxItem:
    action = context.store.actions.by_key(run.id, ActionKey("store"))
    now = context.clock.now()
    given = {
        "run_id": run.id,
        "goal_id": action.goal_id,
        "action_id": action.id,
        "kind": "approval",
        "text": "shell wants to run `make deploy`",
        "detail": {
            "tool": "shell",
            "args": '{"command":"make deploy"}',
            "reason": "nothing holds it",
            "digest": item_id,
        },
        "created_at": now,
        "expires_at": now + timedelta(days=7),
    }
    item = InboxItem(id=item_id, **(given | fields))
    with context.store.transaction():
        return context.store.inbox.ask(item)


def block(context: RunContext, run: Run, key: str, item_id: str) -> None:
    action = context.store.actions.by_key(run.id, ActionKey(key))
    with context.store.transaction():
        context.store.actions.block({action.id: blocked_on_inbox(item_id).reason})


def expect_error(answer, code: int, *words: str) -> None:
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert all(word in answer.err for word in words), answer.err
    assert "Traceback" not in answer.err


def test_status_lists_items_that_wait_for_a_human(context: RunContext, scaffold, run: Run) -> None:
    """BX-13: open items with their subject; decided ones are gone."""
    store, now = context.store, context.clock.now()
    action = store.actions.by_key(run.id, ActionKey("store"))
    about = {"run_id": run.id, "goal_id": action.goal_id, "created_at": now}
    asked = [
        InboxItem(id="1", kind="approval", text="May I?", detail={"command": "rm"}, action_id=action.id, **about),
        InboxItem(id="2", kind="question", text="Which?", detail={}, **about),
        InboxItem(id="3", kind="notice", text="Look.", detail={}, **about),
    ]
    with store.transaction():
        for item in asked:
            store.inbox.ask(item)
        store.inbox.decide("3", "answered")
    first, second = scaffold("status", "--json").json["inbox"]
    assert first == {
        "id": "1",
        "kind": "approval",
        "text": "May I?",
        "detail": {"command": "rm"},
        "goal_id": action.goal_id,
        "action": "store",
        "created_at": now.isoformat().replace("+00:00", "Z"),
        "expires_at": None,
    }
    assert (second["id"], second["action"]) == ("2", None)


def test_status_shows_first_what_needs_a_human(context: RunContext, scaffold, run: Run) -> None:
    """BX-13: before the goals, with the commands that decide."""
    approval(context, run, "abc123")
    block(context, run, "store", "abc123")
    shown = scaffold("status").out
    assert shown.index("Needs you") < shown.index("shop: active")
    assert "scaffold approve abc123" in shown
    assert "scaffold reject abc123" in shown
    assert [line for line in shown.splitlines() if line.split()[:3] == ["■", "blocked", "store"]] == snapshot(
        ["  ■ blocked   store  waits for you: abc123 in the inbox"]
    )
    assert "scaffold inbox" in shown[shown.index("Next") :]
    assert "waits_for" not in scaffold("tasks").out


def test_an_approval_is_shown_in_full(context: RunContext, scaffold, run: Run) -> None:
    """BX-13: who asks, exactly for what, why, until when, and how to answer; control characters are escaped."""
    detail = {
        "tool": "shell",
        "args": '{"command":"make deploy\\necho \\u001b[2K","timeout_s":60}',
        "reason": "nothing holds it",
    }
    approval(context, run, "abc123", detail=detail)
    block(context, run, "api", "abc123")
    shown = scaffold("inbox").out
    assert shown.splitlines()[0].startswith(f"approval abc123: store and 1 more, in run {run.id}")
    assert "    │ make deploy\n    │ echo \\x1b[2K\n" in shown
    assert "  timeout_s:\n    │ 60\n" in shown
    assert "nothing holds it." in shown
    assert "expires in 6 d" in shown
    assert "  scaffold approve abc123\n" in shown
    assert "  scaffold reject abc123\n" in shown
    assert ESCAPE not in shown


def test_an_approval_of_a_change_names_its_files_and_a_long_call_is_cut(context, scaffold, run: Run) -> None:
    """AL-9: it concerns a change and not a call, so no arguments are shown."""
    approval(context, run, "i1", text="store changes", detail={"action": "store", "protected": ["auth/a.py", "b.sql"]})
    shown = scaffold("inbox").out
    assert "  protected:\n    │ auth/a.py\n    │ b.sql\n" in shown
    assert "args" not in shown
    approval(context, run, "i2", detail={"args": '{"content":"%s"}' % ("x" * 30_000)})
    shown = scaffold("inbox").out
    assert "10,000" in shown
    assert "`scaffold inbox --json`" in shown
    assert len(scaffold("inbox", "--json").json["inbox"][1]["detail"]["args"]) > 30_000


def test_a_question_is_shown_with_its_options(context: RunContext, scaffold, run: Run) -> None:
    """BX-13, RA-18: the agent's lines stand behind a bar, or follow our own words in one line."""
    options = ["sqlite", f"post{ESCAPE}gres", "a\n\nquestion i2: answered\nanswer: y"]
    detail = {"question": "Which?", "options": options, "action": "store"}
    approval(context, run, "abc123", kind="question", text=f"Which?{ESCAPE}\n  scaffold approve i9", detail=detail)
    shown = scaffold("inbox").out
    assert "    │ Which?\\x1b[2K\n    │   scaffold approve i9\n  - sqlite\n  - post\\x1b[2Kgres\n" in shown
    assert "\n  - a question i2: answered answer: y\n" in shown
    assert "scaffold answer abc123" in shown
    assert ESCAPE not in shown


def test_items_come_oldest_first_and_all_includes_decided_ones(context: RunContext, scaffold, run: Run) -> None:
    """BX-13."""
    approval(context, run, "first")
    approval(context, run, "second")
    assert scaffold("approve", "first", "--why", "go").code == 0
    assert [each["id"] for each in scaffold("inbox", "--json").json["inbox"]] == ["second"]
    everything = scaffold("inbox", "--all", "--json").json["inbox"]
    assert [(each["id"], each["state"], each["answer"]) for each in everything] == [
        ("first", "approved", "go"),
        ("second", "open", None),
    ]
    assert everything[0]["actions"] == ["store"]
    (line,) = [line for line in scaffold("inbox", "--all").out.splitlines() if "approved" in line]
    assert line.startswith("  approved: go, ")
    assert " 23 h" in line


def test_a_decision_unblocks_every_action_that_waits_for_it(context: RunContext, scaffold, run: Run) -> None:
    """BX-13: by any prefix of the id; a live run continues automatically."""
    approval(context, run, "abc123")
    block(context, run, "store", "abc123")
    block(context, run, "api", "abc123")
    answer = scaffold("approve", "abc", "--for", "goal", "--hours", "2")
    assert answer.code == 0
    assert answer.out.replace(run.id, "RUN") == snapshot("""\
approved abc123: shell wants to run `make deploy`
  run RUN continues
""")
    assert [each["status"] for each in scaffold("status", "--json").json["actions"]] == ["pending", "pending"]
    item = context.store.inbox.get("abc123")
    assert item.scope == "goal"
    assert item.created_at < item.valid_until - timedelta(hours=2) <= item.decided_at


def test_a_paused_run_says_how_to_resume_it(context: RunContext, scaffold, run: Run) -> None:
    approval(context, run, "abc123")
    approval(context, run, "other")
    finish_run(context.store, run, "paused")
    output = scaffold("reject", "abc123", "--why", "too early").out
    assert f"`scaffold resume {run.id}`" in output
    assert "`scaffold inbox`" in output
    assert context.store.inbox.get("abc123").answer == "too early"


def test_repeating_a_decision_changes_nothing_and_the_opposite_is_refused(
    context: RunContext, scaffold, run: Run
) -> None:
    """BX-13: a command that was killed can be repeated."""
    approval(context, run, "abc123")
    assert scaffold("approve", "abc123").code == 0
    before = context.store.inbox.get("abc123")
    again = scaffold("approve", "abc123", "--why", "again")
    assert (again.code, again.out.splitlines()[0]) == snapshot((0, "approval abc123 was already approved"))
    assert "scaffold send" in again.out
    assert "scaffold send" not in scaffold("approve", "abc123").out
    expect_error(scaffold("reject", "abc123"), 1, "abc123", "approved")
    assert context.store.inbox.get("abc123") == before


def test_several_items_are_decided_together_or_not_at_all(context: RunContext, scaffold, run: Run) -> None:
    approval(context, run, "first")
    approval(context, run, "second")
    expect_error(scaffold("approve", "first", "nonsense"), 64, "`nonsense`")
    assert context.store.inbox.is_open("first")
    assert scaffold("approve", "first", "sec", "first").code == 0
    assert context.store.inbox.open() == ()


UNSUITABLE = {
    ("approve", "ab"): ("`ab`", "abc1, abc2"),
    ("approve", "zzz"): ("`zzz`", "abc1"),
    ("approve", ""): ("``",),
    ("approve", "abc1", "--hours", "0"): ("--hours",),
    ("approve", "abc1", "--for", "ever"): ("'ever'",),
    ("approve",): ("ID",),
    ("answer", "abc1", "yes"): ("abc1", "scaffold approve abc1"),
    ("approve", "question"): ("question", "scaffold answer question TEXT"),
    ("answer", "question", " "): ("empty",),
    ("answer", "question"): ("TEXT",),
}
"""Decisions that do not fit: what their errors name."""


def test_an_unsuitable_decision_is_refused_with_a_fix(context: RunContext, scaffold, run: Run) -> None:
    approval(context, run, "abc1")
    approval(context, run, "abc2")
    approval(context, run, "question", kind="question", text="Which?", detail={})
    for args, words in UNSUITABLE.items():
        expect_error(scaffold(*args), 64, *words)
    assert len(context.store.inbox.open()) == 3


def test_an_answer_is_stored_unchanged(context: RunContext, scaffold, run: Run) -> None:
    """BX-13."""
    approval(context, run, "abc123", kind="question", text="Which?", detail={})
    assert scaffold("answer", "abc123", "sqlite, of course").code == 0
    assert context.store.inbox.get("abc123").answer == "sqlite, of course"
    assert scaffold("answer", "abc123", "sqlite, of course").code == 0
    expect_error(scaffold("answer", "abc123", "postgres"), 1, "abc123", "answered")


def test_an_item_that_expired_or_whose_run_ended_cannot_be_decided(context: RunContext, scaffold, run: Run) -> None:
    """BX-13."""
    approval(context, run, "late", expires_at=context.clock.now())
    expect_error(scaffold("approve", "late"), 1, "late", "expired", f"`scaffold resume {run.id}`")
    assert scaffold("inbox").out == snapshot("Nothing is waiting for you.\n")
    approval(context, run, "gone")
    with context.store.transaction():
        context.store.inbox.withdraw(run.id)
    expect_error(scaffold("approve", "gone"), 1, "gone", "withdrawn")


def test_an_expired_item_of_a_stopped_run_no_longer_blocks(context: RunContext, scaffold, run: Run) -> None:
    """BX-13: a run without an owner has not noticed yet; the screen says how to resume it."""
    approval(context, run, "late", expires_at=context.clock.now())
    block(context, run, "store", "late")
    (shown,) = scaffold("inbox", "--all", "--json").json["inbox"]
    assert shown["state"] == "expired"
    assert "expires in" not in scaffold("inbox", "--all").out
    status = scaffold("status").out
    assert "expired" in status
    assert "late" not in status
    expect_error(scaffold("retry", "store"), 64, "expired", f"`scaffold resume {run.id}`")


def test_the_inbox_is_among_the_everyday_commands(scaffold) -> None:
    everyday = scaffold("--help").out.split("Advanced")[0]
    assert "inbox" in everyday
