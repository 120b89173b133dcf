"""A second reviewer of work that passed: real worktrees and checks, scripted agents."""

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from integration.worker.builders import REVIEWED, WITH_CRITIC, claimed_attempt, critique_text, run_reviewed, verdict
from scaffold.core.proof.reviewer_record import ProbeAnswer
from scaffold.landing.facts.effect_evidence import evidence_of
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import QueueIdle
from scaffold.llm.cassette_model import Cassette, CassetteEntry, CassetteModel, CassetteToolCall, RequestMatcher
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.learning.reviewer_records import reviewer_rates
from scaffold.run.learning.stores import user_store_if_any
from scaffold.worker.attempt_records import CandidateReady
from scaffold.worker.second_review.review_agent import judge_path_request, second_reviewer
from support.harness import act, goal


def verification(harness, run):
    return harness.attempts(run, "a")[-1].verification


async def begin(harness, *, action=None, **settings):
    return await harness.own(goal("g", action or act("a")), **(REVIEWED | settings))


async def test_work_that_no_check_shows_to_be_right_is_handed_in_as_reviewed(harness):
    """AL-23, BX-1: the verdict is stored with what it holds for; the reviewer sees request, reasons and change."""
    run = await begin(harness)
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a"], [verdict()]), CandidateReady)
    found = verification(harness, run)
    assert (found.strength, found.review.doubts, found.review.model) == ("reviewed", ("no_contract",), "script")
    assert [(each.file, each.line) for each in found.review.review.citations] == [("a", 1)]
    assert found.review.base == harness.attempts(run, "a")[-1].base_sha
    assert harness.attempts(run, "a")[0].usage.requests == 3, "the attempt pays for its reviewer"
    (asked,) = harness.prompts("reviewer")
    assert "# The request: a (role: implementation)\nDo a." in asked
    assert ("no contract" in asked, "+one" in asked) == (True, True)


async def test_work_without_doubts_and_of_common_size_is_not_reviewed(harness):
    """AL-23."""
    run = await begin(harness, action=act("a", check="test -f a"))
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a"], [verdict("reject")]), CandidateReady)
    assert (verification(harness, run).strength, harness.prompts("reviewer")) == ("proven", [])


@pytest.mark.slow
@pytest.mark.parametrize(("share", "asked"), [(1, 1), (0, 0)])
async def test_a_large_change_is_reviewed_if_it_is_in_the_sample(harness, share, asked):
    """AL-23: more than 200 changed lines."""
    sampled = structs.replace(REVIEWED["reviewer"], share=share)
    run = await begin(harness, action=act("a", check="test -f a"), reviewer=sampled)
    assert isinstance(await run_reviewed(harness, run, "a", ["seq 201 > a"], [verdict()]), CandidateReady)
    assert len(harness.prompts("reviewer")) == asked
    assert verification(harness, run).strength == "proven"
    assert (verification(harness, run).review is not None) == bool(asked)


@pytest.mark.usefixtures("own_home")
async def test_a_rejection_goes_back_to_the_agent_with_its_citations(harness):
    """AL-23: it is a failure of the iteration; another change gets another review, and both verdicts are kept."""
    run = await begin(harness)
    answers = {"\\+one": [verdict("reject", note="not one")], "\\+two": [verdict()]}
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a", "echo two > a"], answers), CandidateReady)
    (_, back) = harness.prompts()
    assert "The check `second review` failed" in back
    assert "- a:1: not one" in back
    assert (verification(harness, run).strength, harness.attempts(run, "a")[0].iteration) == ("reviewed", 2)
    given = harness.store.review_verdicts.for_action(harness.action(run, "a").id)
    assert sorted(each.verdict for each in given) == ["approve", "reject"]
    (rates,) = reviewer_rates(harness.context, harness.context.clock)
    assert (rates.model, rates.approvals, rates.rejections, rates.stood) == ("script", 1, 1, 0)


async def test_work_that_stays_rejected_fails_with_that_reason(harness):
    """AL-23: bounded by the iterations of the tier, and an earlier version that passed does not land instead."""
    run = await begin(harness, iterations=2)
    answers = {"\\+one": [verdict("reject")], "\\+two": [verdict("reject", summary="Still wrong.")]}
    ending = await run_reviewed(harness, run, "a", ["echo one > a", "echo two > a"], answers)
    assert isinstance(ending, AttemptEnd)
    assert ending.outcome == "contract_failed", ending
    assert ending.error.startswith("The check `second review` failed.")
    assert "Still wrong." in ending.error


async def test_an_agent_that_insists_on_rejected_work_does_not_land_it(harness):
    """AL-23."""
    run = await begin(harness)
    ending = await run_reviewed(harness, run, "a", ["echo one > a", ""], [verdict("reject")])
    assert isinstance(ending, AttemptEnd)
    assert ending.error.startswith("nothing changed after the checks failed: The check `second review` failed")


@pytest.mark.slow
async def test_the_same_change_gets_no_second_chance_in_another_attempt(harness):
    """AL-23: a verdict holds for the change; only another change is judged anew."""
    run = await begin(harness)
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a", ""], [verdict("reject")]), AttemptEnd)
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a", ""], [verdict()]), AttemptEnd)
    assert len(harness.prompts("reviewer")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (["Fine!", "Really!", "Yes!"], "none of its 3 answers can be used. Your message does not end with"),
        ([verdict(line=7)] * 3, "These citations do not match the commit:\na:7: the file has 1 line."),
        ([verdict(file="nowhere")] * 3, "nowhere:1: the file is empty or not in the commit"),
        ([verdict(file="list")] * 3, "It cites no line of a file that is in question."),
        ([verdict(before=True)] * 3, "a:1 (before the change): the file is empty or not in the commit"),
        ([], "has no reply for"),
    ],
    ids=["never a verdict", "no such line", "no such file", "another file", "not there before", "nobody there"],
)
async def test_without_a_usable_verdict_the_work_stays_weak_and_nothing_fails(harness, answers, why):
    """AL-23, BX-1: an approval that cites what does not exist counts as none."""
    run = await begin(harness)
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a"], answers), CandidateReady)
    assert (verification(harness, run).strength, verification(harness, run).review) == ("weak", None)
    (warning,) = harness.notices(run)
    assert warning.startswith("a got no second review: ")
    assert why in warning


async def test_an_unusable_verdict_is_asked_for_again_with_its_error(harness):
    """AL-23: in the same conversation."""
    run = await begin(harness)
    answers = [verdict(line=7), verdict()]
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a"], answers), CandidateReady)
    assert "a:7: " in harness.prompts("reviewer")[1]
    assert verification(harness, run).strength == "reviewed"


async def test_a_deleted_line_can_be_cited(harness):
    """AL-23."""
    run = await begin(harness)
    answers = [verdict(file="list", line=3, before=True)]
    assert isinstance(await run_reviewed(harness, run, "a", ["rm list"], answers), CandidateReady)
    assert verification(harness, run).strength == "reviewed"


@pytest.mark.slow
async def test_the_second_reviewer_reads_what_the_critic_left(harness):
    """AL-23, AL-5: only the version that is about to be handed in."""
    run = await begin(harness, **WITH_CRITIC)
    critiques = [critique_text(3, "say two"), critique_text(9)]
    answers = {"\\+one": [verdict("reject")], "\\+two": [verdict()]}
    turns = ["echo one > a", "echo two > a"]
    assert isinstance(await run_reviewed(harness, run, "a", turns, answers, critiques=critiques), CandidateReady)
    assert len(harness.prompts("reviewer")) == 1


async def test_work_left_unchanged_after_its_critique_is_reviewed(harness):
    """AL-23, AL-5: and a rejection still reaches the agent."""
    run = await begin(harness, **WITH_CRITIC)
    answers = {"\\+one": [verdict("reject")], "\\+two": [verdict()]}
    turns = ["echo one > a", "", "echo two > a"]
    critiques = [critique_text(3), critique_text(3), critique_text(9)]
    assert isinstance(await run_reviewed(harness, run, "a", turns, answers, critiques=critiques), CandidateReady)
    assert await harness.show(f"{harness.attempts(run, 'a')[-1].head_sha}:a") == "two"


async def test_work_that_passed_earlier_is_reviewed_before_it_replaces_a_failed_improvement(harness):
    """AL-23, AL-5."""
    run = await begin(harness, action=act("a", check="! grep -q bad a"), iterations=2, **WITH_CRITIC)
    ending = await run_reviewed(
        harness, run, "a", ["echo one > a", "echo bad > a"], [verdict("reject")], critiques=[critique_text(3)]
    )
    assert isinstance(ending, AttemptEnd)
    assert "I read it." in ending.error


WRITES = (
    CassetteEntry(
        when=RequestMatcher(action="a", turn=1),
        tool_calls=(CassetteToolCall("write_file", {"path": "login.sql", "content": "DROP"}),),
    ),
    CassetteEntry(when=RequestMatcher(action="a"), text="done"),
)
"""An agent that needs no command, so that nothing but its work is to be approved."""


async def begin_protected(harness, **settings):
    """Store a run whose plan, a model's, declares a change in a protected area."""
    action = act("a", check="test -f login.sql", files=("login.sql",))
    return await begin(harness, action=action, **({"sandbox": "off", "yolo": False, "inbox_wait_s": 0.0} | settings))


@pytest.mark.slow
async def test_a_protected_area_that_only_a_plan_declares_needs_no_human_after_an_approval(harness):
    """AL-9: second reviewer or question."""
    run = await begin_protected(harness)
    assert isinstance(await run_reviewed(harness, run, "a", WRITES, [verdict(file="login.sql")]), CandidateReady)
    assert harness.store.inbox.all() == ()
    assert verification(harness, run).review.review.verdict == "approve"
    assert "login.sql" in harness.prompts("reviewer")[0]


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (
            [verdict("reject", file="login.sql")],
            snapshot("a changes protected paths: login.sql. The second reviewer rejects it: I read it."),
        ),
        ([], snapshot("a changes protected paths: login.sql")),
    ],
    ids=["rejects", "nobody there"],
)
@pytest.mark.slow
async def test_without_an_approval_of_the_reviewer_the_human_is_asked(harness, answers, text):
    """AL-9: with the objection; the work waits, and no verdict is asked for again once the human decided."""
    run = await begin_protected(harness)
    ending = await run_reviewed(harness, run, "a", WRITES, answers)
    assert ending.outcome == "waiting"
    (item,) = harness.store.inbox.all()
    assert item.text == text
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, "approved", scope="action")
    assert isinstance(await run_reviewed(harness, run, "a", WRITES, answers), CandidateReady)
    assert len(harness.prompts("reviewer")) == 1 + (not answers)
    assert len(harness.store.inbox.all()) == 1


async def test_in_the_tier_architect_the_merge_queue_asks_a_human_about_protected_areas_too(harness):
    """AL-9, AL-22: the worker asks nobody, as the whole change is asked about before it lands."""
    run = await begin_protected(harness, tier="architect")
    ending = await run_reviewed(harness, run, "a", WRITES, [verdict(file="login.sql")])
    assert isinstance(ending, CandidateReady)
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), QueueIdle)
    (item,) = harness.store.inbox.open()
    assert (item.detail["protected"], [*queue.approvals.awaiting.values()]) == (["login.sql"], [item.id])
    await queue.close()


REJECTED_EMPTY = """```json
{"verdict": "reject", "citations": [], "summary": "No."}
```"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ([verdict(file="list", line=2)], "approve"),
        ([verdict("reject", file="README")], "reject"),
        ([REJECTED_EMPTY] * 3, None),
        ([], None),
    ],
    ids=["approves", "rejects", "cites nothing", "nobody there"],
)
async def test_an_agents_request_for_further_files_is_judged_with_citations(harness, answers, word):
    """AL-23: by the same reviewer, which reads the files as they are and cites them as they were."""
    run = await begin(harness)
    async with claimed_attempt(harness, run, "a") as working:
        entries = tuple(
            CassetteEntry(when=RequestMatcher(role="reviewer", event="files", turn=turn), text=text)
            for turn, text in enumerate(answers, 1)
        )
        model = CassetteModel(Cassette(path=harness.repo / "script", digest="", entries=entries))
        reviewer = second_reviewer(*working.with_model(model))
        found = await judge_path_request(working.place, reviewer, ["tests/conftest.py"], "Fixture!")
    assert (found and found.verdict) == word
    (asked, *_) = harness.prompts("reviewer")
    assert "- tests/conftest.py" in asked
    assert "Fixture!" in asked


async def test_a_run_without_a_second_reviewer_has_nobody_to_ask(harness):
    """AL-23."""
    run = await begin(harness, reviewer=None)
    async with claimed_attempt(harness, run, "a") as working:
        assert second_reviewer(*working.with_model(None)) is None


def store_probes(harness, found):
    """Store that the reviewer found so many of four planted faults."""
    with user_store_if_any(harness.context.clock, create=True) as user, user.transaction():
        for number in range(8):
            verdict_word = "reject" if number < found else "approve"
            kind = "operator" if number < 4 else ""
            user.reviewers.add_probe(
                ProbeAnswer(
                    id=str(number), model="script", kind=kind, verdict=verdict_word, at=harness.context.clock.now()
                )
            )


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """The user's database in a folder of the test."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("own_home")
async def test_approvals_of_a_reviewer_that_misses_planted_faults_lift_no_doubt(harness):
    """AL-23: weak stays weak, the run says why, and the verdict is no evidence."""
    store_probes(harness, found=1)
    run = await begin(harness)
    assert isinstance(await run_reviewed(harness, run, "a", ["echo one > a"], [verdict()]), CandidateReady)
    found = verification(harness, run)
    assert (found.strength, found.review.counts, found.review.approves) == ("weak", False, False)
    (told,) = [each for each in harness.notices(run) if "approvals do not count" in each]
    assert told.startswith("The second reviewer script found 1 of 4 planted faults")
    assert evidence_of(found, None, found.commit, harness.context.clock.now())[-1].kind != "review"


@pytest.mark.usefixtures("own_home")
async def test_approvals_of_a_reviewer_that_finds_half_of_them_count(harness):
    """AL-23."""
    store_probes(harness, found=2)
    run = await begin(harness)
    await run_reviewed(harness, run, "a", ["echo one > a"], [verdict()])
    assert verification(harness, run).strength == "reviewed"
