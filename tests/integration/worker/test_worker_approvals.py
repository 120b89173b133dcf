"""A worker whose command needs a human: it asks once, waits briefly, and pins its work if there is no answer."""

import asyncio

import pytest
from inline_snapshot import snapshot

from builders import sandbox_or_skip
from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.builders import Looks
from scaffold.core.errors import HumanDecisionRequired, StaleFence
from scaffold.core.states import Blocked, Pending, blocked_on_inbox
from scaffold.host.process_identity import own_identity
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.run.attempts.assignment import read_assignment
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.worker.activity_clock import attempt_activity
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.human.inbox_approval import InboxApprover
from support.harness import DEAD_PROCESS, act, goal, poll_until, scripted_model

NOBODY_S = 0.05
"""For tests without an answer."""
LONG_S = 20.0
"""For tests with an answer."""
DEED = "echo x > a"


async def begin(harness, *, wait_s=NOBODY_S, **settings):
    return await harness.own(goal("g", act("a"), act("b")), sandbox="off", inbox_wait_s=wait_s, **settings)


def items(harness):
    return harness.store.inbox.all()


def decide(harness, item_id, to, **how):
    with harness.store.transaction():
        harness.store.inbox.decide(item_id, to, **how)


async def human(harness, to, **how):
    """Wait for an open item, and decide it."""
    await poll_until(harness.store.inbox.open)
    decide(harness, harness.store.inbox.open()[0].id, to, **how)


async def worked(harness, run, *replies, model=None):
    attempt = await harness.queue(run, "a")
    return await carried_out(harness, attempt, model or RecordingModel(cassette_model(*replies)))


async def carried_out(harness, attempt, model):
    return await harness.execute(attempt, model)


async def consent(harness, task):
    activity = attempt_activity(harness.context.clock, task)
    records = AttemptRecords(run_context=harness.context, task=task, activity=activity)
    return await InboxApprover(records).answer("Which?", ())


async def test_without_an_answer_the_work_is_pinned_and_the_action_waits(harness):
    """BX-13, BX-3, SC-20: the slot is free for others, and no attempt is counted."""
    run = await begin(harness)
    ending = await harness.work(run, "a", DEED)
    (item,) = items(harness)
    assert ending == AttemptEnd("waiting", ending.error, item.id)
    assert item.text in ending.error
    assert harness.action(run, "a").state == blocked_on_inbox(item.id)
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.status, attempt.outcome) == ("ended", "waiting")
    assert harness.store.actions.failures(attempt.action_id) == 0
    assert harness.statuses(run)["b"] == "pending"


@pytest.mark.slow
async def test_an_attempt_that_times_out_while_it_waits_has_not_failed(harness):
    """BX-13: a slow human is no failure."""
    run = await begin(harness, wait_s=LONG_S, attempt_timeout_s=3.0)
    ending = await harness.work(run, "a", DEED)
    (item,) = items(harness)
    assert ending == AttemptEnd("waiting", ending.error, item.id)
    assert harness.action(run, "a").state == blocked_on_inbox(item.id)
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0


@pytest.mark.slow
async def test_while_it_is_asked_at_a_terminal_a_worker_waits_and_its_time_stands_still(harness):
    """BX-13, BX-17: until the terminal is left; a process that is dead asks nothing."""
    run = await begin(harness, attempt_timeout_s=8.0)

    def sit_down():
        if looks.decisions == 1:
            (item,) = items(harness)
            for terminal in (own_identity(), DEAD_PROCESS):
                with harness.store.transaction():
                    harness.store.inbox.ask_at_terminal([item.id], terminal)

    # It asks at its first look, and would give up at the second one.
    looks = Looks(before=sit_down)
    attempt, model = await harness.queue(run, "a"), scripted_model({"a": [DEED]})
    work = asyncio.create_task(harness.execute(attempt, model, watch=looks.watch))
    await poll_until(lambda: looks.decisions > 1)
    await asyncio.sleep(8.5)  # longer than an attempt may take
    await looks.two_more(harness, run, "decisions")
    assert harness.attempt(attempt.id).status == "claimed"
    with harness.store.transaction():
        harness.store.inbox.ask_at_terminal([], own_identity())
    assert (await work).outcome == "waiting"


async def test_work_done_before_the_question_is_pinned(harness):
    """BX-3."""
    run = await begin(harness)
    before = ("write_file", {"path": "kept", "content": "kept\n"})
    ending = await worked(harness, run, call_entry(1, before), call_entry(2, ("shell", {"command": DEED})))
    assert ending.outcome == "waiting"
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{attempt.head_sha}:kept") == "kept"


async def test_the_item_says_exactly_what_is_requested_by_whom_and_why(harness):
    """RA-13, BX-13: a decision is bound to all of it."""
    run = await begin(harness)
    await harness.work(run, "a", DEED)
    (item,) = items(harness)
    (attempt,) = harness.attempts(run, "a")
    assert (item.kind, item.run_id, item.action_id, item.attempt_id) == (
        "approval",
        run.id,
        attempt.action_id,
        attempt.id,
    )
    assert item.text == snapshot("shell wants to run `echo x > a`")
    assert (item.detail["tool"], item.detail["category"], item.detail["subject"]) == ("shell", "shell", DEED)
    assert item.detail["args"] == '{"command":"echo x > a","timeout_s":30}'
    assert len(item.detail["digest"]) == 64
    assert item.detail["reason"]
    assert item.expires_at > item.created_at


async def test_an_approval_in_time_lets_the_same_attempt_continue(harness):
    """BX-13."""
    run = await begin(harness, wait_s=LONG_S)
    async with asyncio.TaskGroup() as together:
        working = together.create_task(harness.work(run, "a", DEED))
        together.create_task(human(harness, "approved"))
    assert isinstance(working.result(), CandidateReady)
    assert len(harness.attempts(run, "a")) == 1


async def test_a_rejection_reaches_the_model_with_the_humans_text(harness):
    """BX-13: it continues in another way."""
    run = await begin(harness, wait_s=LONG_S)
    model = RecordingModel(
        cassette_model(
            call_entry(1, ("shell", {"command": DEED})),
            call_entry(2, ("write_file", {"path": "a", "content": "x\n"})),
            CassetteEntry(text="done"),
        )
    )
    async with asyncio.TaskGroup() as together:
        working = together.create_task(worked(harness, run, model=model))
        together.create_task(human(harness, "rejected", answer="use files"))
    assert isinstance(working.result(), CandidateReady)
    (result,) = model.requests[1].messages[-1].parts
    assert result.failed
    assert "use files" in result.content


@pytest.mark.slow
async def test_an_earlier_decision_is_not_asked_again(harness):
    """BX-13: a later attempt, and another action with the same request, continue at once."""
    run = await begin(harness)
    await harness.work(run, "a", DEED)
    (item,) = items(harness)
    decide(harness, item.id, "approved")
    assert harness.action(run, "a").state == Pending()
    assert isinstance(await harness.work(run, "a", DEED), CandidateReady)
    assert isinstance(await harness.work(run, "b", DEED), CandidateReady)
    assert len(items(harness)) == 1


async def test_a_decision_applies_in_the_next_attempt_with_another_worktree_path(harness):
    """BX-13: models name their folder; it differs between attempts."""
    run = await begin(harness)
    naming = 'cd "$(pwd)" && echo x > a'
    for outcome in ("waiting", "landed"):
        attempt = await harness.queue(run, "a")
        folder = harness.context.attempt_folder(run.id, attempt.id)
        ending = await harness.run_attempt(attempt, {"a": [naming.replace("$(pwd)", str(folder))]})
        assert (getattr(ending, "outcome", "landed")) == outcome
        if outcome == "waiting":
            (item,) = items(harness)
            decide(harness, item.id, "approved")
    assert item.detail["subject"] == 'cd "<worktree>" && echo x > a'
    assert str(folder.parent) not in str(item.detail)
    assert len(items(harness)) == 1


@pytest.mark.slow
async def test_no_other_path_is_taken_for_the_worktree(harness):
    """BX-13: the placeholder for its path cannot be used to avoid an approval."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    folder = harness.context.attempt_folder(run.id, attempt.id)

    def removing(path):
        return RecordingModel(cassette_model(call_entry(1, ("python", {"code": f"import os; os.remove('{path}/x')"}))))

    assert (await carried_out(harness, attempt, removing(folder))).outcome == "waiting"
    decide(harness, items(harness)[0].id, "approved")
    for path in ("<worktree>", f"{folder}-2"):
        begin_anew(harness, run)
        assert (await worked(harness, run, model=removing(path))).outcome == "waiting", path
        decide(harness, harness.store.inbox.open()[0].id, "approved")
    assert len(items(harness)) == 3


def begin_anew(harness, run):
    """Let the next attempt begin with a new conversation, as one does whose model is another."""
    with harness.store.transaction():
        harness.store.kept_turns.forget(harness.action(run, "a").id)


async def test_a_decision_for_one_action_does_not_cover_another(harness):
    """BX-13."""
    run = await begin(harness)
    await harness.work(run, "a", DEED)
    decide(harness, items(harness)[0].id, "approved", scope="action")
    assert isinstance(await harness.work(run, "a", DEED), CandidateReady)
    assert (await harness.work(run, "b", DEED)).outcome == "waiting"
    assert len(items(harness)) == 2


@pytest.mark.slow
async def test_an_approval_of_a_call_holds_for_one_call_of_an_attempt(harness):
    """RA-13, BX-13: the second one asks again; an attempt that begins anew after a wait asks nothing twice."""
    run = await begin(harness)
    calls = [call_entry(number, ("shell", {"command": DEED})) for number in (1, 2)]
    twice = [*calls, CassetteEntry(text="done")]
    await worked(harness, run, *twice)
    decide(harness, items(harness)[0].id, "approved", scope="call")
    ending = await worked(harness, run, *twice)
    assert (ending.outcome, len(items(harness))) == ("waiting", 2)
    assert harness.attempts(run, "a")[-1].head_sha
    decide(harness, items(harness)[1].id, "approved", scope="call")
    assert isinstance(await worked(harness, run, *twice), CandidateReady)
    assert len(items(harness)) == 2


@pytest.mark.parametrize("scope", ["call", "action", "goal"])
@pytest.mark.slow
async def test_a_decision_covers_all_who_waited_for_it(harness, scope):
    """BX-13: however narrow it is, the same request is not asked again."""
    run = await begin(harness)
    for key in "ab":
        await harness.work(run, key, DEED)
    decide(harness, items(harness)[0].id, "approved", scope=scope)
    for key in "ab":
        assert isinstance(await harness.work(run, key, DEED), CandidateReady)
    assert len(items(harness)) == 1


async def test_two_actions_with_the_same_request_wait_for_one_item(harness):
    """BX-13: identical approvals are grouped."""
    run = await begin(harness)
    await harness.work(run, "a", DEED)
    await harness.work(run, "b", DEED)
    (item,) = items(harness)
    assert harness.action(run, "a").state == harness.action(run, "b").state == blocked_on_inbox(item.id)
    decide(harness, item.id, "approved")
    assert set(harness.statuses(run).values()) == {"pending"}


async def test_a_decision_during_the_end_of_an_attempt_unblocks_the_action(harness):
    """BX-13: a decision between the end of the wait and the end of the attempt is not missed."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    task = read_assignment(harness.store, attempt.id)
    harness.claim(attempt)
    with pytest.raises(HumanDecisionRequired, match="no decision yet") as waits:
        await consent(harness, task)
    decide(harness, waits.value.item, "answered", answer="this one")
    end_attempt(harness.store, run, attempt.id, AttemptEnd("waiting", "waits", item=waits.value.item))
    assert harness.action(run, "a").state == Pending()


async def test_a_superseded_worker_asks_nothing(harness):
    """BX-8."""
    run = await begin(harness)
    attempt = await harness.queue(run, "a")
    task = read_assignment(harness.store, attempt.id)
    with harness.store.transaction():
        harness.store.attempts.end(attempt.id, outcome="lost")
    with pytest.raises(StaleFence):
        await consent(harness, task)
    assert items(harness) == ()


@pytest.mark.slow
async def test_a_question_waits_for_its_answer_and_is_asked_once(harness):
    """BX-13: the answer is the tool's result, in this attempt or a later one."""
    run = await begin(harness)
    asking = ("ask_human", {"question": "Which database?", "options": ["sqlite", "postgres"]})
    deed = call_entry(2, ("write_file", {"path": "a", "content": "x\n"}))
    assert (await worked(harness, run, call_entry(1, asking))).outcome == "waiting"
    (item,) = items(harness)
    assert (item.kind, item.text) == ("question", "Which database?")
    assert item.detail["options"] == ["sqlite", "postgres"]
    assert isinstance(harness.action(run, "a").state, Blocked)
    decide(harness, item.id, "answered", answer="sqlite")
    model = RecordingModel(cassette_model(call_entry(1, asking), deed, CassetteEntry(text="done")))
    assert isinstance(await worked(harness, run, model=model), CandidateReady)
    (result, news) = model.requests[0].messages[-1].parts
    assert (result.content, result.failed) == ("sqlite", False)
    assert news.text.startswith("You were interrupted, and your work was saved meanwhile.")
    assert len(items(harness)) == 1


async def test_with_yolo_nothing_is_asked(harness):
    """RA-13: protected files stay protected."""
    run = await begin(harness, yolo=True)
    model = RecordingModel(
        cassette_model(call_entry(1, ("shell", {"command": f"{DEED}; touch .git/x"})), CassetteEntry(text="done"))
    )
    await worked(harness, run, model=model)
    (result,) = model.requests[1].messages[-1].parts
    assert result.failed
    assert "protected" in result.content
    assert "ask_human" not in [tool.name for tool in model.requests[0].tools]
    assert items(harness) == ()


async def test_the_users_own_deny_rules_apply_whatever_a_human_decides_later(harness):
    """RA-13."""
    run = await begin(harness, deny=("shell:curl",))
    model = RecordingModel(
        cassette_model(call_entry(1, ("shell", {"command": "curl example.org"})), CassetteEntry(text="done"))
    )
    await worked(harness, run, model=model)
    (result,) = model.requests[1].messages[-1].parts
    assert result.failed
    assert items(harness) == ()


async def test_in_a_sandbox_commands_are_free(harness):
    """RA-13."""
    await sandbox_or_skip()
    run = await harness.own(goal("g", act("a")), sandbox="auto", inbox_wait_s=NOBODY_S)
    calls = call_entry(1, ("shell", {"command": DEED}), ("python", {"code": "open('b', 'w')"}))
    assert isinstance(await worked(harness, run, calls, CassetteEntry(text="done")), CandidateReady)
    assert items(harness) == ()


async def test_a_withdrawn_item_is_asked_again_if_it_is_still_needed(harness):
    run = await begin(harness, wait_s=LONG_S)

    async def meddle():
        await poll_until(harness.store.inbox.open)
        with harness.store.transaction():
            harness.store.inbox.withdraw(run.id)
        await human(harness, "approved")

    async with asyncio.TaskGroup() as together:
        working = together.create_task(harness.work(run, "a", DEED))
        together.create_task(meddle())
    assert isinstance(working.result(), CandidateReady)
    assert [each.state for each in items(harness)] == ["withdrawn", "approved"]
