"""Prompts of a worker's role, and the results it leaves: a real store, a scripted model."""

import pytest

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.core.states import Failed, Pending, Running
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import ReviewRecorded
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.run.attempts.assignment import read_assignment
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal


async def worked(harness, run, key, *replies):
    """Run an attempt at an action; return its outcome and the first request to the model."""
    attempt = await harness.queue(run, key)
    model = RecordingModel(cassette_model(*replies))
    ending = await harness.execute(attempt, model)
    return ending, model.requests[0]


@pytest.mark.slow
async def test_a_role_gets_the_prompt_that_its_run_was_given(harness, tmp_path):
    """SC-6: the folders are stored with the run, so every process and every later resume reads the same ones."""
    (tmp_path / "dba.md").write_text("Indexes, {role}!")
    run = await harness.own(goal("g", act("a", role="dba")), prompts=(str(tmp_path),))
    _, request = await worked(harness, run, "a", CassetteEntry(text="done"))
    assert "\n\nIndexes, dba!" in request.system


@pytest.mark.slow
async def test_an_unusable_prompt_raises_one_notice_per_run(harness, tmp_path):
    """SC-6: the work continues with the built-in prompt."""
    (tmp_path / "implementation.md").write_bytes(b"\xff")
    run = await harness.own(goal("g", act("a"), act("b")), prompts=(str(tmp_path),))
    for key in ("a", "b"):
        _, request = await worked(harness, run, key, CassetteEntry(text="done"))
        assert "Your role: implementation." in request.system
    assert [f"{tmp_path}/implementation.md" in text for text in harness.notices(run)] == [True]


@pytest.mark.slow
async def test_a_prompt_has_the_facts_and_results_of_its_preconditions(harness):
    """SC-13, OR-9: facts with their commit, and the results of their providers only."""
    run = await harness.own(
        goal("g", act("a"), act("other"), act("b", needs=["a_done"]), wants=["b_done", "other_done"]), **UNSANDBOXED
    )
    queue = MergeQueue(harness.context, run)
    for key in ("a", "other"):
        await harness.work(run, key, f"echo x > {key}")
        await queue.step()
    _, request = await worked(harness, run, "b", CassetteEntry(text="done"))
    text = request.messages[0].parts[0].text
    facts = {fact.assertion: fact.commit[:8] for fact in harness.store.facts.for_goal(harness.action(run, "a").goal_id)}
    holding = "\n".join(f"- {name} (shown at {facts[name]})" for name in ("a_done", "other_done"))
    assert f"# What already holds\n{holding}\n" in text
    assert text.endswith("# What was done before\n## a: Do a.\ndone with a")


@pytest.mark.slow
async def test_a_child_gets_what_its_compound_builds_on(harness):
    """SC-13: the preconditions of a compound are those of its children."""
    phase = act("phase", kind="compound", needs=["a_done"], effects=("b_done",))
    run = await harness.own(goal("g", act("a"), phase, act("b", parent="phase")))
    await harness.work(run, "a", "echo x > a")
    await MergeQueue(harness.context, run).step()
    harness.move(harness.action(run, "phase"), Running())
    task = read_assignment(harness.store, (await harness.queue(run, "b")).id)
    assert [each.key for each in task.prerequisites] == ["a"]
    assert task.parent.key == "phase"
    assert [fact.assertion for fact in task.prerequisite_facts] == ["a_done"]


async def test_the_final_answer_of_a_failed_attempt_is_stored_in_full(harness):
    """SC-11: on the attempt, and not as an excerpt."""
    words = "é✓ <b>&</b>\n" * 10_000
    run = await harness.own(goal("g", act("a", check="false")), iterations=1)
    work = call_entry(1, ("write_file", {"path": "a", "content": "x\n"}))
    ending, _ = await worked(harness, run, "a", work, CassetteEntry(text=words))
    assert ending.outcome == "contract_failed"
    (attempt,) = harness.attempts(run, "a")
    assert attempt.result == words


@pytest.mark.slow
async def test_iterations_of_an_attempt_are_counted(harness):
    """AL-20: the iteration, beside the number of the attempt."""
    run = await harness.own(goal("g", act("a", check="grep -q two a")))
    assert isinstance(await harness.work(run, "a", "echo one > a", "echo two > a"), CandidateReady)
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.number, attempt.iteration) == (1, 2)


PASSES, FAILS = "grep -q x a", "grep -q y a"
UNCHANGED = {
    "the checks fail": act("fails", needs=["a_done"], check=FAILS, role="testing"),
    "there are no checks": act("none", needs=["a_done"], role="testing"),
    "nothing is verified": act("nothing", check="true", role="testing"),
    "who is to make something": act("make", needs=["a_done"], check=PASSES),
}


@pytest.mark.slow
async def test_a_tester_without_a_change_is_done_if_the_checks_pass_on_what_it_verifies(harness):
    """SC-7, BX-1: the checks pass at its base commit, and depend on what landed before."""
    tester = act("t", needs=["a_done"], check=PASSES, role="testing")
    run = await harness.own(goal("g", act("a"), tester, *UNCHANGED.values()), **UNSANDBOXED)
    queue = MergeQueue(harness.context, run)
    await harness.work(run, "a", "echo x > a")
    await queue.step()
    tip, done = await harness.tip(run), CassetteEntry(text="All is well.")
    ended = {why: (await worked(harness, run, each.key, done))[0].outcome for why, each in UNCHANGED.items()}
    assert ended == dict.fromkeys(UNCHANGED, "contract_failed")
    assert (await worked(harness, run, "t", done))[0] == CandidateReady(tip)
    assert await queue.step() == ReviewRecorded(tip)
    facts = {each.assertion: each for each in harness.store.facts.for_goal(harness.goal(run).id)}
    assert (facts["t_done"].commit, facts["t_done"].strength, facts["t_done"].paths) == (tip, "proven", ("a",))
    assert [(each.kind, each.command, each.exit_code) for each in facts["t_done"].evidence] == [("contract", PASSES, 0)]


@pytest.mark.slow
async def test_another_approach_is_one_more_attempt_with_its_text_in_the_prompt(harness):
    """SC-20: one beyond the maximum, then it has failed permanently."""
    run = await harness.own(goal("g", act("a", check="false")), attempts=2)
    a = harness.action(run, "a")
    await harness.work(run, "a", "echo x > a")
    with harness.store.transaction():
        harness.store.actions.guide(a.id, "Use a queue.")
    await harness.work(run, "a", "echo x > a")
    assert harness.statuses(run) == {"a": "pending"}
    write = call_entry(1, ("write_file", {"path": "a", "content": "y\n"}))
    _, request = await worked(harness, run, "a", write, CassetteEntry(text="done"))
    assert "\nUse a queue." in request.messages[0].parts[0].text
    assert isinstance(harness.action(run, "a").state, Failed)
    assert harness.action(run, "a").state.reason.startswith("contract_failed in attempt 3 of 3: ")


@pytest.mark.slow
async def test_an_action_fails_for_its_most_telling_reason(harness):
    """AL-6: the check that its work failed, not that the last agent changed nothing."""
    run = await harness.own(goal("g", act("a", check="grep -q good a")), attempts=3, iterations=1, **UNSANDBOXED)
    for turn in ("echo bad > a", "", ""):
        await harness.work(run, "a", turn)
    reason = harness.action(run, "a").state.reason
    assert reason.startswith("contract_failed in attempt 1 of 3: ")
    assert "grep -q good a" in reason


@pytest.mark.slow
async def test_a_retried_action_fails_for_a_reason_of_its_new_attempts(harness):
    """AL-6: what failed before the human's retry counts no longer."""
    run = await harness.own(goal("g", act("a", check="grep -q good a")), attempts=1, iterations=1, **UNSANDBOXED)
    await harness.work(run, "a", "echo bad > a")
    a = harness.action(run, "a")
    with harness.store.transaction():
        harness.store.actions.reset_failures(a.id)
        harness.store.actions.move(a.id, Pending())
    await harness.work(run, "a", "")
    assert harness.action(run, "a").state.reason.startswith("contract_failed in attempt 2 of 2: the agent said")
