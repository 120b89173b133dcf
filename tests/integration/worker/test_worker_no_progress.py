"""Workers without progress, with real tools and a real worktree."""

import pytest

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.git import refs
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.tools.command.shell import python, shell
from scaffold.tools.workspace import Workspace
from scaffold.worker.agent.watchdog import worktree_fingerprint
from scaffold.worker.attempt_records import CandidateReady
from scaffold.worker.workspace.attempt_worktree import open_workspace
from support.harness import act, goal


async def worked(harness, run, *commands):
    """Run an attempt with these commands, one in each turn, then done."""
    attempt = await harness.queue(run, "a")
    calls = [call_entry(turn, ("shell", {"command": command})) for turn, command in enumerate(commands, 1)]
    model = RecordingModel(cassette_model(*calls, CassetteEntry(text="done")))
    ending = await harness.execute(attempt, model)
    return ending, model


@pytest.mark.slow
async def test_an_attempt_in_a_loop_ends_and_the_next_one_knows_the_cause(harness):
    """BX-12: the cause is in the briefing, its work is pinned, and it counts as its own failure."""
    run = await harness.own(goal("g", act("a")))
    ending, model = await worked(harness, run, "echo x > a", "ls nowhere", "ls nowhere", "ls nowhere", "echo y > b")
    assert ending.outcome == "executor_failed"
    assert ending.error.startswith("no progress: ")
    assert len(model.requests) == 4
    (attempt,) = harness.attempts(run, "a")
    assert attempt.escalation == "again"
    assert await harness.show(f"{refs.rescue_ref(attempt.id)}:a") == "x"
    assert harness.store.actions.failures(attempt.action_id) == 1
    assert "no progress: " in (await harness.queue(run, "a")).briefing


@pytest.mark.slow
async def test_a_check_that_fails_after_each_change_is_no_loop(harness):
    """BX-12: a test that fails until it passes is progress."""
    run = await harness.own(goal("g", act("a", check="test -s a")))
    steps = ["grep -q 4 a"]
    for number in (1, 2, 3, 4):
        steps += [f"echo {number} >> a", "grep -q 4 a"]
    ending, _ = await worked(harness, run, *steps)
    assert isinstance(ending, CandidateReady)


@pytest.mark.slow
async def test_a_silent_command_is_cancelled_twice(harness):
    """BX-12: idle; the first time the agent gets a nudge, the second time the attempt ends."""
    run = await harness.own(goal("g", act("a")), idle_s=1.5)
    ending, model = await worked(harness, run, "sleep 60", "sleep 60")
    assert ending.outcome == "timeout"
    assert ending.error.startswith("no output, no tool call and no model reply for 1.5 s")
    assert "no activity" in model.requests[1].messages[-1].parts[-1].text


@pytest.mark.parametrize(
    ("make", "args"),
    [(shell, {"command": "echo a; echo b >&2"}), (python, {"code": "print('a')"})],
    ids=["shell", "python"],
)
async def test_output_of_a_running_command_counts_as_activity(harness, make, args):
    """BX-12: a running command that prints is active; a silent one is not."""
    heard = []
    root = Workspace(harness.repo, dict(harness.context.environ), on_output=lambda: heard.append("something"))
    assert not (await make(root).run(args)).failed
    assert heard
    heard.clear()
    assert not (await make(root).run({"command": "true", "code": "1"})).failed
    assert heard == []


async def test_any_change_of_the_tree_changes_its_fingerprint(harness):
    """BX-12."""
    run = await harness.own(goal("g", act("a")))
    workspace = await open_workspace(harness.context, await harness.queue(run, "a"))

    async def fingerprint():
        return await worktree_fingerprint(workspace.git)

    await harness.sh("echo x > seen", cwd=workspace.path)
    prints = [await fingerprint()]
    assert await fingerprint() == prints[0]
    await harness.sh("cat list; git status; touch list", cwd=workspace.path)
    assert await fingerprint() == prints[0]
    for change in (
        "echo x > new",
        "echo x > b; git add b",
        "echo x >> list",
        "ln -s list link",
        "echo y > seen",
        "rm list",
    ):
        await harness.sh(change, cwd=workspace.path)
        prints.append(await fingerprint())
        assert len({*prints}) == len(prints), change


async def test_special_files_do_not_disturb_the_fingerprint(harness):
    """BX-12: a pipe does not block it, and if git fails two states are never equal."""
    run = await harness.own(goal("g", act("a")))
    workspace = await open_workspace(harness.context, await harness.queue(run, "a"))
    await harness.sh("mkfifo pipe; echo x > locked; chmod 0 locked; mkdir d; ln -s . d/loop", cwd=workspace.path)
    assert await worktree_fingerprint(workspace.git) == await worktree_fingerprint(workspace.git)
    await harness.sh('rm "$(git rev-parse --git-dir)/HEAD"', cwd=workspace.path)
    assert await worktree_fingerprint(workspace.git) != await worktree_fingerprint(workspace.git)
