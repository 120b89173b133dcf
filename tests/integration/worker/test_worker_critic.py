"""The loop around a change: verified before each critique, and over when it is good enough or gets no further."""

import json

import pytest

from integration.worker.builders import CRITICISED, scores, total, work
from scaffold.core.events import NoticeRaised, VerificationFailed
from scaffold.git import refs
from scaffold.worker.attempt_record import CandidateReady
from support.harness import act, goal


async def begin(harness, *, check="test -f a", **settings):
    return await harness.own(goal("g", act("a", check=check)), **(CRITICISED | settings))


def journal(harness):
    return [json.loads(line) for line in (harness.repo / ".scaffold/logs/g/a.jsonl").read_text().splitlines()]


def prompts(harness, role=None):
    """Return what the agent of the attempt was told, or who has another `role` in it."""
    return [each["text"] for each in journal(harness) if each["type"] == "prompt" and each.get("role") == role]


def told(harness, run):
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    return [event.text for event in events if isinstance(event, NoticeRaised)]


async def handed(harness, run, path="a"):
    """Return what the last attempt's candidate holds."""
    return await harness.show(f"{harness.attempts(run, 'a')[-1].head_sha}:{path}")


async def test_work_that_passes_goes_on_until_its_critic_finds_it_good_enough(harness):
    """AL-5: the critic's words are the agent's next message; verified again before each critique."""
    run = await begin(harness)
    turns = ["echo one > a", "echo two > a"]
    critiques = {1: [total(5, "`a` says one; it should say two.")], 2: [total(7)]}
    assert isinstance(await work(harness, run, "a", turns, critiques), CandidateReady)
    assert scores(harness, run) == [(1, 5, False), (2, 7, True)]
    assert await handed(harness, run) == "two"
    assert "`a` says one; it should say two." in prompts(harness)[1]
    assert "gave it 5 of 9" in prompts(harness)[1]
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.iteration, attempt.verification.commit) == (2, attempt.head_sha)


async def test_a_critic_sees_the_task_the_checks_and_the_change_and_has_no_tools(harness):
    """AL-5: what it judges, and nothing of the conversation before."""
    run = await begin(harness)
    await work(harness, run, "a", ["echo one > a"], {1: [total(9)]})
    (asked,) = prompts(harness, "critic")
    assert "# The task: a (role: implementation)\nDo a." in asked
    assert "- pass: test -f a" in asked
    assert "+one" in asked
    assert "iteration 1 of 5" in asked
    assert harness.attempts(run, "a")[0].usage.requests == 3, "the attempt pays for its critic"


async def test_one_below_the_threshold_is_acceptable(harness):
    """AL-5."""
    run = await begin(harness)
    await work(harness, run, "a", ["echo one > a", "echo two > a"], {1: [total(6)]})
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 6, True)], "one")


async def test_a_critic_may_ask_for_the_end_of_what_passes(harness):
    """AL-5: DONE, and verified."""
    run = await begin(harness)
    await work(harness, run, "a", ["echo one > a", "echo two > a"], {1: [total(4, end="DONE")]})
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 4, True)], "one")


async def test_an_agent_that_says_done_while_its_work_fails_is_refused(harness):
    """AL-5: DONE is a request. In answer to a critique it ends the loop where the work passes, and only there."""
    run = await begin(harness, check="grep -q good a")
    said = {"a": ["echo good > a", "echo bad > a", "echo good and better > a"]}
    critiques = {1: [total(3)], 3: [total(3)]}
    assert isinstance(await work(harness, run, "a", said["a"], critiques, words="DONE"), CandidateReady)
    assert prompts(harness)[2].startswith("You asked to stop, but the work does not pass.")
    assert "[fail] grep -q good a" in prompts(harness)[2]


async def test_what_an_agent_says_before_any_critique_ends_nothing(harness):
    """AL-5: no first answer spares its agent the critic."""
    run = await begin(harness)
    await work(harness, run, "a", ["echo one > a", "echo two > a"], {1: [total(3)], 2: [total(9)]}, words="DONE")
    assert [score for _, score, _ in scores(harness, run)] == [3]
    assert await handed(harness, run) == "two"


async def test_at_the_maximum_what_passes_is_done_and_its_score_is_recorded(harness):
    """AL-5."""
    run = await begin(harness, iterations=2)
    ending = await work(harness, run, "a", ["echo 1 > a", "echo 2 > a", "echo 3 > a"], {1: [total(3)], 2: [total(4)]})
    assert isinstance(ending, CandidateReady)
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 3, False), (2, 4, True)], "2")


async def test_at_the_maximum_what_does_not_pass_has_failed(harness):
    """AL-6: not handed in, pinned, and an event that names what is wrong; nobody criticises what fails."""
    run = await begin(harness, check="test -f never", iterations=2)
    ending = await work(harness, run, "a", ["echo 1 > a", "echo 2 > a"], {1: [total(9, end="DONE")]})
    assert (ending.outcome, scores(harness, run)) == ("contract_failed", [])
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    (failed,) = [event for event in events if isinstance(event, VerificationFailed)]
    assert (failed.action, failed.iterations) == ("a", 2)
    assert failed.summary.startswith("[fail] test -f never")
    (attempt,) = harness.attempts(run, "a")
    assert attempt.head_sha == await refs.resolve(harness.site.git, refs.rescue_ref(attempt.id))
    assert attempt.verification.failures


async def test_an_agent_that_changes_nothing_ends_the_loop(harness):
    """AL-5: what passed is handed in as it is, whatever its critic would rather have."""
    run = await begin(harness)
    assert isinstance(await work(harness, run, "a", ["echo one > a", ""], {1: [total(3)]}), CandidateReady)
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 3, False)], "one")
    assert harness.attempts(run, "a")[0].iteration == 2


async def test_a_malformed_critique_is_asked_for_again(harness):
    """AL-5: with what is wrong with it, in the same conversation."""
    run = await begin(harness)
    answers = ["Good!", "Total: 12/9", total(8)]
    assert isinstance(await work(harness, run, "a", ["echo one > a"], {1: answers}), CandidateReady)
    assert scores(harness, run) == [(1, 8, True)]
    asked = prompts(harness, "critic")
    assert ["lacks the line `Total: N/9`" in asked[1], "from 3 to 9, not 12" in asked[2]] == [True, True]


@pytest.mark.parametrize(
    ("critiques", "why"),
    [
        ({1: ["Good!", "Very!", "Really!"]}, "none of its 3 answers can be used. It lacks the line `Total: N/9`."),
        ({}, "has no reply for"),
    ],
    ids=["never usable", "nobody there"],
)
async def test_without_a_usable_critique_passing_is_enough(harness, critiques, why):
    """AL-5: work that passed is not lost for want of a critic, and the run is warned."""
    run = await begin(harness)
    assert isinstance(await work(harness, run, "a", ["echo one > a", "echo two > a"], critiques), CandidateReady)
    (warning,) = told(harness, run)
    assert warning.startswith("a was not criticised: ")
    assert why in warning
    assert (scores(harness, run), await handed(harness, run)) == ([], "one")


async def test_a_budget_that_ends_before_the_critic_loses_no_work(harness):
    """AL-5: what passed is handed in."""
    run = await begin(harness, budget_usd=1.5)
    assert isinstance(await work(harness, run, "a", ["echo one > a"], {1: [total(3)]}, usd=1.0), CandidateReady)
    assert "a was not criticised: " in told(harness, run)[0]


async def test_what_passed_is_handed_in_if_what_was_to_improve_it_does_not_pass(harness):
    """AL-5: the improvement is pinned, not landed."""
    run = await begin(harness, check="grep -q good a", iterations=2)
    assert isinstance(await work(harness, run, "a", ["echo good > a", "echo bad > a"], {1: [total(3)]}), CandidateReady)
    assert await handed(harness, run) == "good"
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:a") == "bad"
    assert told(harness, run) == [
        "a is handed in as it last passed; improving it further failed: [fail] grep -q good a"
    ]
    assert harness.statuses(run) == {"a": "landing"}


@pytest.mark.slow
async def test_what_passed_is_handed_in_if_there_is_no_time_to_improve_it(harness):
    """AL-5, AL-6: the attempt's time is over while the agent goes on."""
    run = await begin(harness, attempt_timeout_s=12.0)
    ending = await work(harness, run, "a", ["echo good > a", "echo better > b; sleep 60"], {1: [total(3)]})
    assert isinstance(ending, CandidateReady)
    assert await handed(harness, run) == "good"


async def test_without_a_critic_passing_is_enough(harness):
    run = await begin(harness, critic=False)
    assert isinstance(await work(harness, run, "a", ["echo one > a", "echo two > a"], {1: [total(3)]}), CandidateReady)
    assert (scores(harness, run), await handed(harness, run)) == ([], "one")


async def test_the_phases_of_criticised_work_are_told_in_order(harness):
    """AL-20: iterations count in one attempt, and each phase is in the store before it begins."""
    run = await begin(harness)
    await work(harness, run, "a", ["echo one > a", "echo two > a"], {1: [total(3)], 2: [total(9)]})
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    phases = [event.phase for event in events if type(event).__name__ == "AttemptPhaseChanged"]
    once = ["executing", "verifying", "critiquing"]
    assert phases == [*once, *once, "candidate"]
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0
