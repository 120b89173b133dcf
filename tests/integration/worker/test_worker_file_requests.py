"""An agent asks for further files: by rule, by a reviewer, by a human; real git and store, a scripted model."""

import asyncio

import pytest
from inline_snapshot import snapshot

from fakes import RecordingModel, call_entry, cassette_model
from integration.worker.test_worker_approvals import LONG_S, NOBODY_S, human
from scaffold.core.events import FilesGranted
from scaffold.core.proof.contract import Contract
from scaffold.core.states import blocked_on_inbox
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.worker.attempt_records import CandidateReady
from scaffold.worker.human.file_requests import MAX_QUESTIONS, DeclarationAnswer, no_reviewer
from support.harness import act, goal

TEST = "def test_it(): pass\n"
REASON = "the task needs it"
DONE = CassetteEntry(text="done")


async def begin(harness, *, wait_s=NOBODY_S, files=("list",), **settings):
    """Start a run in a repository with a test."""
    (harness.repo / "tests").mkdir()
    (harness.repo / "tests/test_it.py").write_text(TEST)
    await harness.sh("git add --all; git commit -qm tests")
    given = {"sandbox": "off", "inbox_wait_s": wait_s}
    return await harness.own(goal("g", act("a", files=files, **settings.pop("action", {}))), **(given | settings))


def request(*paths, reason=REASON):
    return "request_files", {"paths": list(paths), "reason": reason}


def write(path, content="x\n"):
    return "write_file", {"path": path, "content": content}


async def worked(harness, run, *replies, reviewer=None):
    """Run an attempt; return its ending and the results of its tools."""
    attempt = await harness.queue(run, "a")
    model = RecordingModel(cassette_model(*replies))
    ending = await harness.execute(attempt, model, reviewer=reviewer or no_reviewer)
    parts = [part for each in model.requests for part in each.messages[-1].parts if hasattr(part, "failed")]
    return ending, [(part.content, part.failed) for part in parts], model.requests


def grants(harness, run):
    return [(each.path, each.by) for each in harness.store.file_grants.for_action(harness.action(run, "a").id)]


async def test_ordinary_files_are_granted_at_once(harness):
    """AL-9: stored with the action and an event; worker and landing judge by the same declaration."""
    run = await begin(harness)
    replies = (call_entry(1, request("README", "docs/")), call_entry(2, write("README"), write("docs/a")))
    ending, results, _ = await worked(harness, run, *replies, DONE)
    assert isinstance(ending, CandidateReady)
    assert results[0] == ("Granted: README\nGranted: docs/", False)
    assert grants(harness, run) == [("README", "rule"), ("docs/", "rule")]
    assert harness.action(run, "a").files == ("list",)
    assert FilesGranted("a", ("README", "docs/"), "rule", REASON) in harness.events(run)
    (attempt,) = harness.attempts(run, "a")
    assert "files" not in {result.name for result in attempt.verification.results}
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    (attempt,) = harness.attempts(run, "a")
    assert "files" not in {result.name for result in attempt.verification.results}


async def test_what_judges_the_work_is_never_granted_by_rule(harness):
    """AL-9, BX-5: without a reviewer it waits for a human, like a call that needs approval."""
    run = await begin(harness)
    judging = [".envrc", "conftest.py", "pytest.ini", "tests/", "tests/test_it.py"]
    ending, _, _ = await worked(harness, run, call_entry(1, request(*judging, "README")), DONE)
    (item,) = harness.store.inbox.all()
    assert (ending.outcome, ending.item) == ("waiting", item.id)
    assert harness.action(run, "a").state == blocked_on_inbox(item.id)
    assert item.text == snapshot(
        "a asks to change files that judge its work: .envrc, conftest.py, pytest.ini, tests/, tests/test_it.py"
    )
    assert (item.detail["files"], item.detail["reason"]) == (judging, REASON)
    assert item.detail["judging"]
    assert grants(harness, run) == [("README", "rule")]


async def test_a_grant_of_a_human_lets_the_work_change_a_test(harness):
    """AL-9, BX-13: in the next attempt, even if its agent begins anew; the plan's files stay as they were."""
    run = await begin(harness)
    await worked(harness, run, call_entry(1, request("tests/test_it.py")), DONE)
    (item,) = harness.store.inbox.all()
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, "approved", answer="go on", scope="call")
        harness.store.kept_turns.forget(item.action_id)
    changed = (call_entry(1, write("tests/test_it.py", TEST + "\n")), DONE)
    ending, _, requests = await worked(harness, run, *changed)
    assert isinstance(ending, CandidateReady)
    assert grants(harness, run) == [("tests/test_it.py", "human")]
    assert "\n- tests/test_it.py (" in requests[0].messages[0].parts[0].text
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)


async def test_an_answer_in_time_lets_the_same_attempt_continue(harness):
    """BX-13."""
    run = await begin(harness, wait_s=LONG_S)
    replies = (call_entry(1, request("tests/test_it.py")), call_entry(2, write("tests/test_it.py", TEST + "\n")), DONE)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(worked(harness, run, *replies))
        group.create_task(human(harness, "approved", answer="fine"))
    ending, results, _ = work.result()
    assert isinstance(ending, CandidateReady)
    assert results[0][0].startswith("Granted: tests/test_it.py ")


@pytest.mark.slow
async def test_a_rejection_is_told_with_what_else_to_do_and_asked_once(harness):
    """BX-13: another reason for the same files is no other question, also in the next attempt."""
    run = await begin(harness)
    await worked(harness, run, call_entry(1, request("tests/test_it.py")), DONE)
    (item,) = harness.store.inbox.all()
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, "rejected", answer="it is right as it is")
    again = call_entry(1, request("tests/test_it.py", reason="really"))
    ending, results, _ = await worked(harness, run, again, DONE)
    assert ending.outcome == "contract_failed"
    assert (results[0][0].splitlines(), results[0][1]) == snapshot(
        (
            [
                (
                    "Denied: tests/test_it.py (tests/test_it.py is an existing test or test data): a human "
                    "rejected it: it is right as it is."
                ),
                (
                    "Do the task without changing these files, for example with new tests in new files. If that is "
                    "impossible, change nothing more and say so, with the reason."
                ),
            ],
            True,
        )
    )
    assert grants(harness, run) == []
    assert len(harness.store.inbox.all()) == 1


async def test_without_anyone_to_ask_what_judges_is_denied(harness):
    """AL-9: with --yolo no human answers; the work goes on."""
    run = await begin(harness, yolo=True)
    replies = (call_entry(1, request("conftest.py", "README")), call_entry(2, write("list")), DONE)
    ending, results, _ = await worked(harness, run, *replies)
    assert isinstance(ending, CandidateReady)
    assert results[0][0].splitlines()[:-1] == snapshot(
        ["Denied: conftest.py (conftest.py controls how tests run): this run asks no human.", "Granted: README"]
    )
    assert harness.store.inbox.all() == ()


@pytest.mark.parametrize(
    ("answer", "granted"),
    [
        (DeclarationAnswer(True, "the test expects what the task removes"), [("tests/test_it.py", "reviewer")]),
        (DeclarationAnswer(False, "the code can keep it"), []),
    ],
)
async def test_a_reviewer_decides_before_a_human_is_asked(harness, answer, granted):
    """AL-9, AL-23: its reasons are the agent's answer; equal requests of an attempt are asked about once."""
    asked = []

    async def reviewer(question):
        asked.append(question)
        return answer

    run = await begin(harness)
    replies = (
        call_entry(1, request("tests/test_it.py")),
        call_entry(2, request("tests/test_it.py", reason="please")),
        DONE,
    )
    _, results, _ = await worked(harness, run, *replies, reviewer=reviewer)
    (question,) = asked
    assert (question.entries, question.reason, [*question.judging]) == (
        ("tests/test_it.py",),
        REASON,
        ["tests/test_it.py"],
    )
    assert grants(harness, run) == granted
    assert answer.why in results[0][0]
    assert results[1][0] == ("Declared already: tests/test_it.py" if answer.approved else results[0][0])
    assert harness.store.inbox.all() == ()


async def test_an_attempt_asks_a_handful_of_questions(harness):
    """AL-17: then the answer is no, and nobody is asked."""
    asked = []

    async def reviewer(question):
        asked.append(question)
        return DeclarationAnswer(False, "no")

    run = await begin(harness)
    calls = [call_entry(turn, request(f"d{turn}/conftest.py")) for turn in range(1, MAX_QUESTIONS + 2)]
    _, results, _ = await worked(harness, run, *calls, DONE, reviewer=reviewer)
    assert len(asked) == MAX_QUESTIONS
    assert results[-1][0].splitlines()[:-1] == snapshot(
        ["Denied: d6/conftest.py (d6/conftest.py controls how tests run): this attempt has asked 5 times already."]
    )


async def test_a_path_that_could_never_land_is_denied_at_once(harness):
    """AL-9: nobody is asked in vain."""
    run = await begin(harness, action={"contract": Contract(must_not_change=("README",))})
    replies = (call_entry(1, request("README", ".git/config")), call_entry(2, request("../x")), DONE)
    _, results, _ = await worked(harness, run, *replies)
    assert results[0][0].splitlines()[:-1] == snapshot(
        [
            "Denied: README must stay as it is: the task is done only if it does.",
            "Denied: .git/config is obeyed by git, Scaffold or other agents, so no task may change it.",
        ]
    )
    assert (results[1][1], "`../x`" in results[1][0]) == (True, True)
    assert harness.store.inbox.all() == ()


async def test_a_reviewer_of_code_cannot_ask_for_files(harness):
    """SC-7: its role changes none."""
    run = await begin(harness, action={"role": "code_review"})
    _, _, requests = await worked(harness, run, CassetteEntry(text="nothing"))
    assert "request_files" not in [tool.name for tool in requests[0].tools]
    assert "request_files" not in requests[0].messages[0].parts[0].text


async def test_a_declared_folder_granted_by_rule_declares_no_test_in_it(harness):
    """AL-9, BX-5: the test is named in the answer, and changing it is refused."""
    run = await begin(harness, iterations=1)
    (harness.repo / "tests/helper.txt").write_text("x")
    replies = (call_entry(1, request("**")), call_entry(2, write("tests/test_it.py")), DONE)
    ending, results, _ = await worked(harness, run, *replies)
    assert results[0] == snapshot(
        (
            (
                "Granted: **, but not what judges the work in it, which needs a request by name: tests/test_it.py "
                "is an existing test or test data."
            ),
            False,
        )
    )
    assert ending.outcome == "contract_failed"
    assert "tests/test_it.py" in ending.error
