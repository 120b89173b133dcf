"""Steps of a compound: one worktree, one after another; only what they all made lands."""

import pytest

from scaffold.core.states import Completed, Failed, Pending, Running
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import StepRecorded
from scaffold.worker.workspace.attempt_worktree import open_workspace, rescue_and_remove
from support.harness import UNSANDBOXED, act, goal

STORY = act("s", kind="compound", effects=("s_done",), title="A list of six")


def step(key, *needs, **fields):
    return act(f"s/{key}", parent="s", workspace="parent", needs=needs, **fields)


def story(*, check="grep -q six list"):
    """A compound of three steps, of which the last lands the work."""
    return (
        STORY,
        step("look"),
        step("write", "s/look_done"),
        step("finish", "s/write_done", effects=("s_done",), check=check),
    )


@pytest.mark.slow
async def test_steps_share_a_worktree_and_land_as_one_commit(harness):
    """DR-10, AL-30: what one leaves, ignored files included, the next one finds; emptiness is judged at the end.

    DR-11: the commit names the compound, whatever step handed it in.
    """
    run = await harness.open_run(goal("g", *story(), wants=["s_done"]), **UNSANDBOXED)
    ending = await harness.run_to_end(
        run,
        **{
            "s/look": ["echo '*.tmp' > .gitignore; pwd > where.tmp"],
            "s/write": ['test "$(cat where.tmp)" = "$(pwd)" && echo six >> list'],
            "s/finish": [""],
        },
    )
    assert ending.state == Completed()
    assert harness.statuses(run) == dict.fromkeys(("s", "s/look", "s/write", "s/finish"), "completed")
    assert await harness.landed(run) == ["s"]
    assert await harness.sh(f"git log -1 --format=%s {run.session_branch}") == "A list of six"
    assert await harness.show(f"{run.session_branch}:list") == "one\ntwo\nthree\nsix"
    look, write, finish = (harness.attempts(run, f"s/{key}")[0] for key in ("look", "write", "finish"))
    assert [each.outcome for each in (look, write, finish)] == ["recorded", "recorded", "landed"]
    assert [each.start for each in (look, write, finish)] == [run.base_sha, look.head_sha, write.head_sha]
    assert {each.base_sha for each in (look, write, finish)} == {run.base_sha}
    assert await harness.worktrees() == 0
    assert await harness.sh("git for-each-ref refs/scaffold") == ""


async def test_nothing_lands_of_steps_that_changed_nothing(harness):
    """DR-4: a step may be empty, the whole may not."""
    run = await harness.open_run(goal("g", *story(check=None), wants=["s_done"]), attempts=1, **UNSANDBOXED)
    ending = await harness.run_to_end(run, **{"s/look": [""], "s/write": [""], "s/finish": [""]})
    assert isinstance(ending.state, Failed)
    assert harness.attempts(run, "s/finish")[0].error.startswith("the agent said it was done, but nothing changed")
    assert await harness.landed(run) == []


@pytest.mark.slow
async def test_the_steps_of_one_compound_keep_its_slot(harness):
    """DR-10, SC-15: with one agent, a compound that has begun is finished before the next one begins."""
    other = [
        act("t", kind="compound", effects=("t_done",)),
        act("t/look", parent="t", workspace="parent"),
        act("t/finish", parent="t", workspace="parent", needs=["t/look_done"], effects=("t_done",)),
    ]
    run = await harness.open_run(goal("g", *story(), *other, wants=["s_done", "t_done"]), agents=1, **UNSANDBOXED)
    turns = {
        "s/look": [""],
        "s/write": ["echo six >> list"],
        "s/finish": [""],
        "t/look": ["echo > t"],
        "t/finish": [""],
    }
    assert (await harness.run_to_end(run, **turns)).state == Completed()
    keys = {harness.action(run, key).id: key for key in harness.statuses(run)}
    begun = [keys[each.action_id] for each in harness.store.attempts.for_run(run.id)]
    assert begun == ["s/look", "s/write", "s/finish", "t/look", "t/finish"]


@pytest.mark.slow
async def test_a_failed_step_fails_its_compound_and_keeps_what_was_made(harness):
    """DR-9: what earlier steps made stays pinned as one commit, and the failed step's own work beside it."""
    run = await harness.open_run(goal("g", *story(check="false"), wants=["s_done"]), attempts=1, **UNSANDBOXED)
    turns = {"s/look": ["echo found > notes"], "s/write": ["echo six >> list"], "s/finish": ["echo bad > bad"]}
    assert isinstance((await harness.run_to_end(run, **turns)).state, Failed)
    write, finish = (harness.attempts(run, f"s/{key}")[0] for key in ("write", "finish"))
    listed = await harness.sh("git for-each-ref --format='%(refname) %(objectname)' refs/scaffold")
    assert dict(line.split() for line in listed.splitlines()) == {
        f"refs/scaffold/work/{write.id}": write.head_sha,
        f"refs/scaffold/rescue/{finish.id}": finish.head_sha,
    }
    assert await harness.sh(f"git diff --name-only {write.head_sha} {finish.head_sha}") == "bad"
    assert await harness.worktrees(spare=False) == 0


async def half_done(harness, run, key, turns):
    """Work on the steps up to this one, and on it until it has written a file; return its attempt."""
    harness.move(harness.action(run, "s"), Running())
    for before in [*turns][: [*turns].index(key)]:
        await harness.work(run, f"s/{before}", turns[before])
        assert isinstance(await MergeQueue(harness.context, run).step(), StepRecorded)
    attempt = await harness.queue(run, f"s/{key}")
    workspace = await open_workspace(harness.context, attempt)
    (workspace.path / "half").write_text("half\n")
    harness.claim(attempt, "executing", worktree=str(workspace.path))
    return attempt


@pytest.mark.parametrize(
    "next_one", ["opens the worktree", pytest.param("dies before it opens it", marks=pytest.mark.slow)]
)
async def test_the_work_of_a_step_that_was_stopped_is_pinned_before_the_next_one_begins(harness, next_one):
    """BX-2, SC-17: a user's stop ends the attempt in the store first, and its worktree is shared."""
    run = await harness.own(goal("g", *story(), wants=["s_done"]), **UNSANDBOXED)
    stopped = await half_done(harness, run, "write", {"look": "true", "write": "true"})
    with harness.store.transaction():
        harness.store.attempts.end(stopped.id, outcome="cancelled", error="stopped by the user")
        harness.store.actions.move(stopped.action_id, Pending())
    again = await harness.queue(run, "s/write")
    if next_one == "opens the worktree":
        await open_workspace(harness.context, again)
    else:
        await rescue_and_remove(harness.context, run, again.id)
    assert await harness.sh(f"git show refs/scaffold/rescue/{stopped.id}:half") == "half"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["look", "write", "finish"])
async def test_a_step_whose_worker_died_begins_again_where_it_began(harness, key):
    """DR-12: its own work is pinned and not in the worktree; never past it."""
    run = await harness.own(goal("g", *story(), wants=["s_done"]), **UNSANDBOXED)
    turns = {"look": "echo found > notes", "write": "echo six >> list", "finish": "true"}
    await half_done(harness, run, key, turns)
    again = harness.orphan(run)
    ending = await harness.run_to_end(again, **{f"s/{each}": [command] for each, command in turns.items()})
    assert ending.state == Completed()
    assert await harness.sh(f"git show {harness.attempts(run, f's/{key}')[0].head_sha}:half") == "half"
    assert "half" not in await harness.sh(f"git ls-tree --name-only {run.session_branch}")
