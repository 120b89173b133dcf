"""What running agents are told of landings: real git, real worktrees."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.git.checkouts import worktree
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.worker.agent.incoming_messages import IncomingMessages
from support.harness import act, goal


@pytest.fixture
async def running(harness):
    """A run in which `a` is at work, and its worktree."""
    (harness.repo / "list").write_text("".join(f"{number}\n" for number in range(1, 101)))
    (harness.repo / "big").write_bytes(bytes(range(256)) * 40)
    await harness.sh("git add -A; git commit -qm numbers")
    run = await harness.own(goal("g", *map(act, "abcd")))
    attempt = await harness.queue(run, "a")
    folder = harness.context.attempt_folder(run.id, attempt.id)
    await worktree.add(harness.context.repository, folder, attempt.base_sha)
    yield run, attempt, folder
    await worktree.remove(harness.context.repository, folder)


async def land(harness, run, command, key="b"):
    await harness.work(run, key, command)
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    await queue.close()


def told(harness, attempt):
    return [message.text for message in IncomingMessages(harness.context, attempt).peek()]


async def test_an_agent_is_told_what_landed_in_the_files_that_it_has_changed(harness, running):
    """AL-4, BX-6: with the lines; of files that it has not touched it is told nothing."""
    run, attempt, folder = running
    await harness.sh("echo mine >> list; echo mine > new; echo mine > README; git add README", cwd=folder)
    await land(harness, run, "sed -i '3s/^/x/; 40,61s/^/y/' list; echo theirs > new; echo other > other; rm big")
    (text,) = told(harness, attempt)
    assert text.splitlines()[1:] == snapshot(
        [
            "| `list`, which you have changed, has landed changes at lines 3, 40-61.",
            "| `new`, which you have changed, has landed changes at line 1.",
            "| That is the work of b. Your work will be merged with them: keep your own changes there small.",
        ]
    )


@pytest.mark.slow
async def test_an_agent_that_edits_other_files_is_told_nothing(harness, running):
    """AL-4: it would distract it."""
    run, attempt, folder = running
    await harness.sh("echo mine > README; git commit -qam mine", cwd=folder)
    await land(harness, run, "sed -i 3s/^/x/ list")
    assert told(harness, attempt) == []


@pytest.mark.slow
async def test_a_file_is_changed_by_its_mode_or_absence_too(harness, running):
    """AL-4: or by a link in its place; what is as it was on the branch is not."""
    run, attempt, folder = running
    await harness.sh("chmod +x list; rm README; ln -sf /dev/null big", cwd=folder)
    await land(harness, run, "for each in list README big; do echo x >> $each; done; echo x > new")
    assert [name for name in ("list", "README", "big", "new") if f"`{name}`" in told(harness, attempt)[0]] == [
        "list",
        "README",
        "big",
    ]


@pytest.mark.slow
async def test_a_broken_worktree_keeps_nothing_from_landing(harness, running):
    """BX-6: git is asked about it by its registration, whatever is in it."""
    run, attempt, folder = running
    for number, broken in enumerate(("echo gitdir: /nowhere > .git", "rm -r *", "rm -r .git list; mkdir list"), 1):
        await harness.sh(f"echo mine >> list; {broken}", cwd=folder)
        await land(harness, run, "sed -i 3s/^/x/ list", key="bcd"[number - 1])
        assert ["`list`" in text for text in told(harness, attempt)] == [True] * number


async def test_a_worktree_that_is_gone_keeps_nothing_from_landing(harness, running):
    """BX-6: nor one that git does not know."""
    run, attempt, folder = running
    await worktree.remove(harness.context.repository, folder)
    await land(harness, run, "sed -i 3s/^/x/ list")
    assert told(harness, attempt) == []


@pytest.mark.slow
async def test_the_index_of_an_agent_is_not_touched(harness, running):
    """AL-4: a lock on it would make the agent's own git fail."""
    run, attempt, folder = running
    await harness.sh("echo mine >> list; touch README big", cwd=folder)
    index = Path((await harness.sh("git rev-parse --absolute-git-dir", cwd=folder)).strip()) / "index"
    before = (index.stat(), index.read_bytes())
    await land(harness, run, "sed -i 3s/^/x/ list; echo x >> README")
    assert "`list`" in told(harness, attempt)[0]
    assert "README" not in told(harness, attempt)[0]
    assert (index.stat(), index.read_bytes()) == before


@pytest.mark.slow
async def test_the_queue_shows_what_will_conflict_with_the_committed_work_of_running_attempts(harness, running):
    """AL-4, BX-6: it is read from refs, so that no agent's worktree or index is touched."""
    run, attempt, folder = running
    await harness.sh("sed -i 3s/^/mine/ list; git commit -qam mine", cwd=folder)
    await harness.sh(f"git update-ref refs/scaffold/work/{attempt.id} HEAD", cwd=folder)
    await harness.work(run, "b", "sed -i 3s/^/other/ list; echo x > README")
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    (place,) = harness.store.merge_queues.for_run(run.id)
    assert (place.lane, place.conflicts) == (1, {"a": ("list",)})
    await queue.close()
