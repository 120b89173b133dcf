"""Evidence that an agent names is checked at once where it is a command or a commit, and makes nothing true."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.events import AssertionProposed
from scaffold.orchestrator.planning.evidence_check import BranchEvidence
from scaffold.orchestrator.planning.proposal_tools import supervisor_tools
from scaffold.orchestrator.planning.proposals import LiveProposals
from support.harness import act, goal


async def nothing_starts(goal_id, action_id):
    raise AssertionError("nothing is dispatched")


@pytest.fixture
def claims(harness):
    """Claim that `a_done` holds, with this evidence, and return the answer."""

    async def claims(run, evidence, **more):
        goal_id = harness.store.goals.by_name(run.id, "g").id
        proposals = LiveProposals(harness.context, run, nothing_starts)
        tools = supervisor_tools(proposals, BranchEvidence(harness.context, run, goal_id))
        args = {"goal": "g", "assertions": {"a_done": True}, "evidence": evidence, **more}
        said = await Toolbox(tools).result(ToolCall("1", "goap_update_world_state", args))
        assert not said.failed, said.content
        return json.loads(said.content)

    return claims


def proposed(harness, run):
    return [event.evidence for event in harness.events(run, AssertionProposed)]


async def test_a_command_is_run_on_what_has_landed_and_the_answer_says_what_was_found(harness, claims):
    """SC-12: it makes nothing true, whatever it says; the answer names what does."""
    run = await harness.own(goal("g", act("a")))
    answer = await claims(run, "`test -f list` shows it")
    assert (answer["checked"]["verdict"], answer["checked"]["exit_code"]) == ("pass", 0)
    assert answer["checked"]["commit"] == await harness.tip(run)
    assert answer["not_shown"] == ["a_done"]
    assert answer["notes"] == snapshot(
        ["What was found does not make `a_done` hold: it holds once `a` has landed with evidence."]
    )
    assert harness.facts(run) == set()
    assert proposed(harness, run) == ["`test -f list` shows it (checked: test -f list: exit code 0)"]
    assert await harness.worktrees() == 0, "its checkout is removed"


@pytest.mark.slow
async def test_a_command_that_fails_says_how(harness, claims):
    """SC-12: any shell command, with what it printed."""
    run = await harness.own(goal("g", act("a")))
    for command, word in {"cat list && ls nowhere": "nowhere", "test -z $(cat list)": "2"}.items():
        checked = (await claims(run, "", command=command))["checked"]
        assert (checked["verdict"], word in checked["found"]) == ("fail", True), checked
    assert (await claims(run, "`test -f a`"))["checked"]["found"] == snapshot(
        "Expected exit code 0, but got exit code 1."
    )


@pytest.mark.slow
async def test_a_command_sees_neither_the_users_checkout_nor_a_workers(harness, claims):
    """SC-12, BX-3: only what is on the branch counts, and the checkout stays as it is."""
    run = await harness.own(goal("g", act("a")))
    (harness.repo / "a").write_text("not committed")
    assert (await claims(run, "`test -f a`"))["checked"]["verdict"] == "fail"
    await claims(run, "`rm -f list`")
    assert (harness.repo / "list").exists()
    assert (await claims(run, "`test -f list` shows it"))["checked"]["verdict"] == "pass"


async def test_other_texts_are_not_run(harness, claims):
    """SC-12: no sentence, even if it begins with the name of a program; no name of the plan, and no file."""
    run = await harness.own(goal("g", act("a"), act("true"), wants=["a_done"]))
    texts = [
        "I am sure",
        "make sure that it exists; it does",
        "test -f list",
        "true",
        "touch it: > list",
        "see `a`'s log",
    ]
    texts += ["", "nowhere/at/all it is", "`true`, then `a_done`", "`list` and `./list` are there", "an open ` echo x"]
    answers = [await claims(run, text) for text in texts]
    assert [text for text, answer in zip(texts, answers, strict=True) if "checked" in answer] == []
    assert proposed(harness, run) == texts
    assert answers[0]["notes"] == snapshot(
        ["Nothing was checked: name an action, `commit SHA`, or a command in backticks or as `command`."]
    )


async def test_a_check_of_the_plan_needs_no_quotes(harness, claims):
    """SC-12: word for word, so nothing is guessed."""
    run = await harness.own(goal("g", act("a", check="test -f list")))
    assert (await claims(run, " test -f list"))["checked"]["verdict"] == "pass"
    assert "checked" not in await claims(run, "test -f list passes")


@pytest.mark.slow
async def test_each_commit_and_command_of_a_claim_is_checked(harness, claims):
    """SC-12: up to three, each once."""
    run = await harness.own(goal("g", act("a")))
    tip = await harness.tip(run)
    said = f"Commit {tip[:9]}: ``test -f list`` and `test -f list` pass,\n```sh\ntest -f a\n```\ndoes not, `true` does"
    assert [each["found"] for each in (await claims(run, said))["checked"]] == [
        f"It is on {run.session_branch}.",
        "exit code 0",
        "Expected exit code 0, but got exit code 1.",
    ]


async def test_a_commit_has_to_exist_and_to_be_on_the_branch(harness, claims):
    """SC-12"""
    run = await harness.own(goal("g", act("a")))
    on_branch = await harness.tip(run)
    elsewhere = await harness.sh("git commit-tree -m elsewhere 'HEAD^{tree}'")
    for named in (on_branch[:10], f"commit {on_branch[:10]}", f"see `{on_branch}`."):
        assert (await claims(run, named))["checked"] == {
            "commit": on_branch,
            "found": f"It is on {run.session_branch}.",
        }
    assert run.session_branch in (await claims(run, elsewhere))["checked"]["found"]
    assert (await claims(run, "deadbeefdead"))["checked"]["found"] == snapshot(
        "There is no commit deadbeefdead in this repository."
    )
    assert harness.facts(run) == set()


async def test_what_a_worker_may_not_run_without_a_question_is_not_run(harness, claims):
    """SC-12, RA-8: a user's rules apply to it, and nobody is there to ask."""
    run = await harness.own(goal("g", act("a")), deny=("shell:rm *",), approvals={"shell": "ask"})
    for command in ("rm list", "python3 -c 1"):
        assert (await claims(run, "", command=command))["checked"]["verdict"] == "error", command


async def test_a_claim_that_no_action_makes_true_needs_one(harness, claims):
    run = await harness.own(goal("g", act("other"), wants=["a_done", "other_done"]))
    (note,) = (await claims(run, "", command="true"))["notes"]
    assert note.startswith("What was found does not make `a_done` hold: create an action")
