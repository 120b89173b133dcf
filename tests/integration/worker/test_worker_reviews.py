"""Reviews: real worktrees, a scripted reviewer; its verdict counts only with citations."""

import json

import pytest
from inline_snapshot import snapshot

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.states import Failed, status_of
from scaffold.git import refs
from scaffold.llm.cassette_model import CassetteEntry, RequestMatcher
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.verify.contract.review_verdict import reviews
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

CITED = [{"file": "list", "line": 2, "note": "has two"}]


def verdict(word="approve", *, citations=CITED, summary="I looked."):
    """Return a final message with a verdict."""
    said = {"verdict": word, "citations": citations, "summary": summary}
    return f"My findings.\n\n```json\n{json.dumps(said)}\n```\n"


async def begin(harness, *others, role="code_review", **settings):
    look = settings.pop("look", {})
    return await harness.own(goal("g", act("look", role=role, **look), *others), **settings)


async def reviewed(harness, run, *replies):
    """Run the review with these replies, each a text or an entry; return its outcome and the model."""
    attempt = await harness.queue(run, "look")
    entries = [each if isinstance(each, CassetteEntry) else said(at, each) for at, each in enumerate(replies, 1)]
    model = RecordingModel(cassette_model(*entries))
    ending = await harness.execute(attempt, model)
    return ending, model


def said(turn, text):
    return CassetteEntry(when=RequestMatcher(turn=turn, action="look", role="code_review"), text=text)


def by_reviewer(entry, turn):
    return CassetteEntry(
        when=RequestMatcher(turn=turn, role="code_review"), tool_calls=entry.tool_calls, text=entry.text
    )


def running(turn, command):
    return by_reviewer(call_entry(turn, ("shell", {"command": command})), turn)


async def test_an_approval_with_citations_is_a_candidate_without_a_commit(harness):
    """SC-7, BX-1: its head is its base, and its verdict is stored as a value."""
    run = await begin(harness)
    ending, _ = await reviewed(harness, run, verdict())
    (attempt,) = harness.attempts(run, "look")
    assert ending == CandidateReady(attempt.base_sha)
    assert (attempt.phase, attempt.head_sha, attempt.iteration) == ("candidate", attempt.base_sha, 1)
    assert [review.summary for review in reviews(attempt.verification)] == ["I looked."]
    assert attempt.result == verdict()
    assert harness.statuses(run) == {"look": "landing"}
    assert await refs.list_refs(harness.context.git, "refs/scaffold/") == {}


async def test_a_reviewer_reads_and_runs_but_has_no_tool_to_change_files(harness):
    """SC-7: its instructions, and its tools."""
    run = await begin(harness)
    _, model = await reviewed(harness, run, verdict())
    names = {tool.name for tool in model.requests[0].tools}
    assert {"read_file", "search_files", "shell", "python"} <= names
    assert names.isdisjoint({"write_file", "append_file", "apply_delta"})
    assert "verdict" in model.requests[0].system


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("It is all fine.", "does not end with a fenced JSON block"),
        (verdict("perhaps"), "is not a valid verdict"),
        (verdict(citations=[]), "must cite at least one file and line"),
        (verdict(citations=[{"file": "list", "line": 4}]), "list:4: the file has 3 lines."),
        (
            verdict(citations=[{"file": "nowhere.py", "line": 1}]),
            "nowhere.py:1: the file is empty or not in the commit",
        ),
        (
            verdict("reject", citations=[{"file": "nowhere.py", "line": 1}]),
            "nowhere.py:1: the file is empty or not in the commit",
        ),
    ],
    ids=["none", "malformed", "no citation", "no such line", "no such file", "a rejection, too"],
)
async def test_an_invalid_verdict_is_requested_again_in_the_same_attempt(harness, first, expected):
    """BX-1, AL-6: the reviewer is told its errors."""
    run = await begin(harness)
    ending, model = await reviewed(harness, run, first, verdict())
    assert isinstance(ending, CandidateReady)
    assert expected in model.requests[1].messages[-1].parts[-1].text
    (attempt,) = harness.attempts(run, "look")
    assert attempt.iteration == 2


async def test_a_reviewer_without_a_verdict_has_failed_and_its_text_is_kept(harness):
    """AL-6, SC-11: up to the tier's iterations, then another attempt."""
    run = await begin(harness, iterations=2)
    ending, _ = await reviewed(harness, run, "Hm.", "Well.", verdict())
    assert ending.outcome == "executor_failed"
    assert ending.error.startswith("no usable verdict: Your message does not end")
    (attempt,) = harness.attempts(run, "look")
    assert attempt.result == "Well."
    assert harness.statuses(run) == {"look": "pending"}


@pytest.mark.slow
async def test_a_rejection_fails_the_action_permanently_with_its_findings(harness):
    """SC-7, SC-20: reviewers are not asked until one approves; dependents are blocked."""
    run = await begin(harness, act("ship", needs=["look_done"]))
    ending, _ = await reviewed(harness, run, verdict("reject", summary="The list is wrong."))
    assert ending == AttemptEnd("gate_failed", ending.error, permanent=True)
    assert ending.error.splitlines() == snapshot(["rejected: The list is wrong.", "- list:2: has two"])
    assert harness.action(run, "look").state == Failed(ending.error)
    assert status_of(harness.action(run, "ship").state) == "blocked"
    (attempt,) = harness.attempts(run, "look")
    assert (attempt.outcome, attempt.result) == ("gate_failed", verdict("reject", summary="The list is wrong."))


async def test_changes_of_a_reviewer_are_pinned_and_do_not_count(harness):
    """BX-3: neither lost nor landed, and reported."""
    run = await begin(harness, **UNSANDBOXED)
    cited = [{"file": "made", "line": 1}]
    ending, _ = await reviewed(
        harness, run, running(1, "echo x > made; echo y >> list"), said(2, verdict(citations=cited)), said(3, verdict())
    )
    (attempt,) = harness.attempts(run, "look")
    assert ending == CandidateReady(attempt.base_sha)
    pinned = refs.rescue_ref(attempt.id)
    assert await harness.show(f"{pinned}:made") == "x"
    assert [pinned in text for text in harness.notices(run)] == [True]


@pytest.mark.slow
async def test_the_contract_of_a_review_is_checked_on_the_commit_it_judges(harness):
    """BX-1: an approval alone is not enough if a contract is given; its changes do not help."""
    contract = Contract(commands=(Check(command="test -e made"),))
    run = await begin(harness, look={"contract": contract}, iterations=2, **UNSANDBOXED)
    ending, model = await reviewed(harness, run, running(1, "echo x > made"), said(2, verdict()), said(3, verdict()))
    assert ending.outcome == "contract_failed"
    assert "The check `test -e made` failed" in ending.error
    assert "The check `test -e made` failed" in model.requests[2].messages[-1].parts[-1].text


async def test_a_passing_contract_is_evidence_for_an_approval_as_well(harness):
    """BX-1."""
    run = await begin(harness, look={"contract": Contract(commands=(Check(command="grep two list"),))})
    ending, _ = await reviewed(harness, run, verdict())
    assert isinstance(ending, CandidateReady)
    (attempt,) = harness.attempts(run, "look")
    assert [result.name for result in attempt.verification.results] == ["grep two list", "review"]


async def test_a_secret_in_a_verdict_is_redacted(harness):
    """RA-13: in the result and in the evidence."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    run = await begin(harness)
    await reviewed(harness, run, verdict(summary=f"It leaks {token}."))
    (attempt,) = harness.attempts(run, "look")
    assert token not in attempt.result
    assert token not in str(attempt.verification)
    assert "[redacted" in reviews(attempt.verification)[0].summary


@pytest.mark.slow
async def test_an_attempt_whose_worktree_is_damaged_is_lost_and_its_work_is_not(harness, tmp_path):
    """BX-3, AL-27: another one begins on a fresh worktree."""
    run = await begin(harness, **UNSANDBOXED)
    script = tmp_path / "ruin.sh"  # its name is all that the policy gets to see
    script.write_text('echo x > made; rm "$(git rev-parse --git-dir)/HEAD"')
    ending, _ = await reviewed(harness, run, running(1, f"sh {script}"), said(2, verdict()))
    assert ending.outcome == "lost"
    (attempt,) = harness.attempts(run, "look")
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:made") == "x"
    again, _ = await reviewed(harness, run, verdict())
    assert isinstance(again, CandidateReady)
