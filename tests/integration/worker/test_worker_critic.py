"""The loop around a change: verified before each critique, and ended when good enough or without progress."""

import pytest
from inline_snapshot import snapshot

from integration.worker.builders import WITH_CRITIC, critique_text, hand_in, run_criticised, scores
from scaffold.core.events import AttemptPhaseChanged, VerificationFailed
from scaffold.git import refs
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal


async def begin(harness, *, check="test -f a", **settings):
    return await harness.own(goal("g", act("a", check=check)), **(WITH_CRITIC | settings))


async def handed(harness, run, path="a"):
    """Return the content of a file in the last attempt's candidate."""
    return await harness.show(f"{harness.attempts(run, 'a')[-1].head_sha}:{path}")


@pytest.mark.slow
async def test_passing_work_continues_until_its_critic_is_satisfied(harness):
    """AL-5: the critique is the agent's next message; verified again before each critique.

    The critic sees what it judges, and nothing of the earlier conversation.

    AL-20: iterations count in one attempt, and each phase is stored before it begins.
    """
    run = await begin(harness)
    turns = ["echo one > a", "echo two > a"]
    critiques = {1: [critique_text(5, "`a`: one, not two")], 2: [critique_text(7)]}
    await hand_in(harness, run, turns, critiques)
    assert scores(harness, run) == [(1, 5, False), (2, 7, True)]
    assert await handed(harness, run) == "two"
    assert "`a`: one, not two" in harness.prompts()[1]
    assert "gave it 5 of 9" in harness.prompts()[1]
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.iteration, attempt.verification.commit) == (2, attempt.head_sha)
    asked, again = harness.prompts("critic")
    assert "# The task: a (role: implementation)\nDo a." in asked
    parts = ("- pass: test -f a", "+one", "iteration 1 of 5", "+two")
    assert [part in asked for part in parts] == [True, True, True, False]
    assert ("+two" in again, "done with a" in again) == (True, False)
    assert attempt.usage.requests == 6, "the attempt pays for its critic"
    once = ["executing", "verifying", "critiquing"]
    assert [event.phase for event in harness.events(run, AttemptPhaseChanged)] == [*once, *once, "candidate"]
    assert harness.store.actions.failures(attempt.action_id) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("score", "end"), [(6, ""), (4, "DONE")])
async def test_a_score_one_below_the_threshold_or_a_done_of_the_critic_is_enough(harness, score, end):
    """AL-5: for work that passes."""
    run = await begin(harness)
    await run_criticised(harness, run, ["echo one > a", "echo two > a"], {1: [critique_text(score, end=end)]})
    assert (scores(harness, run), await handed(harness, run)) == ([(1, score, True)], "one")


@pytest.mark.slow
async def test_an_agent_that_says_done_while_its_work_fails_is_refused(harness):
    """AL-5: DONE is a request. After a critique it ends the loop if the work passes, and only then."""
    run = await begin(harness, check="grep -q good a")
    said = {"a": ["echo good > a", "echo bad > a", "echo good and better > a"]}
    critiques = {1: [critique_text(3)], 3: [critique_text(3)]}
    await hand_in(harness, run, said["a"], critiques, words="DONE")
    assert harness.prompts()[2].startswith("You asked to stop, but the work does not pass.")
    assert "The check `grep -q good a` failed" in harness.prompts()[2]


@pytest.mark.slow
async def test_done_before_any_critique_ends_nothing(harness):
    """AL-5: a first answer cannot avoid the critic."""
    run = await begin(harness)
    await run_criticised(
        harness, run, ["echo one > a", "echo two > a"], {1: [critique_text(3)], 2: [critique_text(9)]}, words="DONE"
    )
    assert [score for _, score, _ in scores(harness, run)] == [3]
    assert await handed(harness, run) == "two"


@pytest.mark.slow
async def test_at_the_maximum_passing_work_is_done_with_its_score(harness):
    """AL-5."""
    run = await begin(harness, iterations=2)
    ending = await run_criticised(
        harness, run, ["echo 1 > a", "echo 2 > a", "echo 3 > a"], {1: [critique_text(3)], 2: [critique_text(4)]}
    )
    assert isinstance(ending, CandidateReady)
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 3, False), (2, 4, True)], "2")


async def test_at_the_maximum_failing_work_has_failed(harness):
    """AL-6: not submitted, pinned, and an event that names the failures; failing work gets no critique."""
    run = await begin(harness, check="test -f never", iterations=2)
    ending = await run_criticised(harness, run, ["echo 1 > a", "echo 2 > a"], {1: [critique_text(9, end="DONE")]})
    assert (ending.outcome, scores(harness, run)) == ("contract_failed", [])
    (failed,) = harness.events(run, VerificationFailed)
    assert (failed.action, failed.iterations) == ("a", 2)
    assert failed.summary.startswith("The check `test -f never` failed")
    (attempt,) = harness.attempts(run, "a")
    assert attempt.head_sha == await refs.resolve(harness.context.git, refs.rescue_ref(attempt.id))
    assert attempt.verification.failures


async def test_an_agent_that_changes_nothing_ends_the_loop(harness):
    """AL-5: work that passed is submitted as it is, whatever its critic would prefer."""
    run = await begin(harness)
    await hand_in(harness, run, ["echo one > a", ""], {1: [critique_text(3)]})
    assert (scores(harness, run), await handed(harness, run)) == ([(1, 3, False)], "one")
    assert harness.attempts(run, "a")[0].iteration == 2


async def test_a_malformed_critique_is_requested_again(harness):
    """AL-5: with its errors, in the same conversation."""
    run = await begin(harness)
    answers = ["Good!", "Total: 12/9", critique_text(8)]
    await hand_in(harness, run, ["echo one > a"], {1: answers})
    assert scores(harness, run) == [(1, 8, True)]
    asked = harness.prompts("critic")
    assert ("`Total: N/9`" in asked[1], "12" in asked[2]) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("critiques", "why"),
    [
        (
            {1: ["Good!", "Very!", "Really!"]},
            "none of its 3 answers can be used. It does not contain the line `Total: N/9`.",
        ),
        ({}, "has no reply for"),
    ],
    ids=["never usable", "nobody there"],
)
async def test_without_a_usable_critique_passing_is_enough(harness, critiques, why):
    """AL-5: work that passed is not lost to a bad critic, and the run gets a warning."""
    run = await begin(harness)
    await hand_in(harness, run, ["echo one > a", "echo two > a"], critiques)
    (warning,) = harness.notices(run)
    assert warning.startswith("a was not critiqued: ")
    assert why in warning
    assert (scores(harness, run), await handed(harness, run)) == ([], "one")


async def test_a_budget_that_ends_before_the_critique_loses_no_work(harness):
    """AL-5: work that passed is submitted."""
    run = await begin(harness, budget_usd=1.5)
    await hand_in(harness, run, ["echo one > a"], {1: [critique_text(3)]}, usd=1.0)
    spent, critique = harness.notices(run)
    assert ("133%" in spent, critique.startswith("a was not critiqued: ")) == (True, True)


async def test_passing_work_is_submitted_if_its_improvement_fails(harness):
    """AL-5: the improvement is pinned, not landed."""
    run = await begin(harness, check="grep -q good a", iterations=2)
    await hand_in(harness, run, ["echo good > a", "echo bad > a"], {1: [critique_text(3)]})
    assert await handed(harness, run) == "good"
    (attempt,) = harness.attempts(run, "a")
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:a") == "bad"
    assert harness.notices(run) == snapshot(
        [
            (
                "a is submitted as it last passed; improving it further failed: The check `grep -q good a` failed. "
                "Expected exit code 0, but got exit code 1."
            )
        ]
    )
    assert harness.statuses(run) == {"a": "landing"}


@pytest.mark.slow
async def test_passing_work_is_submitted_if_there_is_no_time_to_improve_it(harness):
    """AL-5, AL-6: the attempt timed out during the next turn."""
    run = await begin(harness, attempt_timeout_s=12.0)
    ending = await run_criticised(harness, run, ["echo good > a", "echo better > b; sleep 60"], {1: [critique_text(3)]})
    assert isinstance(ending, CandidateReady)
    assert await handed(harness, run) == "good"


async def test_without_a_critic_passing_is_enough(harness):
    run = await begin(harness, critic=False)
    await hand_in(harness, run, ["echo one > a", "echo two > a"], {1: [critique_text(3)]})
    assert (scores(harness, run), await handed(harness, run)) == ([], "one")
