"""Temporary files of dead processes: who removes them, and when."""

import os

from integration.orchestrator.test_orchestrator_recovery import executing as half_done
from scaffold.core.proof.gates import Baseline, CheckEnvironment, CopiedFolder
from scaffold.git.checkouts import worktree
from scaffold.host.atomic_files import FileLock
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run, release_attempt, remove_if_empty
from scaffold.orchestrator.owner.run_lease import release_run
from scaffold.verify.environment.golden import ENVIRONMENTS, RECORD
from scaffold.verify.environment.provisioning import provision_checkout
from support.harness import act, goal


async def executing(harness, run, key):
    """Return an attempt of a dead worker that has a worktree with work, and temporary files."""
    attempt = await half_done(harness, run, key)
    temporary = harness.context.temporary(run.id, attempt.id) / "abc" / "cache"
    temporary.mkdir(parents=True)
    (temporary / "big").write_text("x")
    return attempt


async def test_an_attempt_that_is_released_leaves_no_temporary_files_and_others_keep_theirs(harness):
    """AL-15, BX-3: one worker dies, another one works on; the work of the first is pinned."""
    run = await harness.own(goal("g", act("a"), act("b")))
    dead, other = await executing(harness, run, "a"), await executing(harness, run, "b")
    await release_attempt(harness.context, run, dead, outcome="lost", error="killed")
    assert not harness.context.temporary(run.id, dead.id).exists()
    assert harness.context.temporary(run.id, other.id).exists()
    assert await harness.show(f"{harness.attempt(dead.id).head_sha}:half") == "done"


async def test_recovery_removes_the_temporary_files_of_all_dead_processes(harness):
    """AL-15: those of attempts, of the merge queue, wake-up pipes, logs of processes that printed nothing, worktrees.

    Also what is left of a worktree when git was killed while it made or removed it: git lists it no more.
    """
    context = harness.context
    run = await harness.own(goal("g", act("a"), act("b")))
    dead = await executing(harness, run, "a")
    context.temporary(run.id, "landing").mkdir()
    await worktree.add(context.repository, context.run_folder(run.id) / "attempts" / "stray", run.base_sha)
    fifo = context.wake_fifo(run.id)
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    empty, telling = context.process_log(run.id, dead.id), context.process_log(run.id, "background")
    empty.parent.mkdir(parents=True)
    empty.touch()
    telling.write_text("said something\n")
    part, users = (context.repository.common_dir / "worktrees" / name for name in (f"taken-{dead.id}1", "mine"))
    for each in (part, users):
        each.mkdir(parents=True)
        (each / "index").touch()
    run = await harness.take(harness.orphan(run))
    await recover_run(context, run)
    assert not context.temporary_folder(run.id).exists()
    assert [path.name for path in context.run_folder(run.id).rglob("*")] == ["attempts", "logs", "background.txt"]
    assert not part.exists()
    assert users.exists(), "git of the user may just be making it"
    telling.unlink()
    remove_if_empty(context, run)
    assert context.run_folder(run.id).exists(), "its owner may need it"
    release_run(harness.store, run)
    remove_if_empty(context, run)
    assert not context.run_folder(run.id).exists()


async def test_a_build_that_was_killed_is_removed_and_one_that_runs_is_not(harness):
    """AL-15: its checkout is registered in git, so nothing but its lock tells whether it is needed."""
    context = harness.context
    run = await harness.own(goal("g", act("a")))
    environments = context.cache / ENVIRONMENTS
    for name in ("killed", "running", "complete"):
        await worktree.add(context.repository, environments / f"{name}.checkout", run.base_sha)
        (environments / name).mkdir()
    (environments / "complete" / RECORD).write_text('{"made_for": "x", "targets": []}')
    async with FileLock(environments / "running.lock", timeout_s=5):
        await recover_run(context, run)
    left = {path.name for path in environments.iterdir() if path.suffix != ".lock"}
    assert left == {"running", "running.checkout", "complete"}
    registered = {each.path.name for each in await worktree.list_worktrees(context.repository)}
    assert "killed.checkout" not in registered


async def test_records_of_copies_go_with_their_worktrees(harness):
    """AL-15: they are kept beside the prepared environment, under names that tell the worktree."""
    context = harness.context
    run = await harness.own(goal("g", act("a")))
    golden = context.cache / ENVIRONMENTS / "golden"
    (golden / "files" / "deps").mkdir(parents=True)
    (golden / "files" / "deps" / "module").write_text("x")
    copied = CopiedFolder(source=str(golden / "files" / "deps"), target="deps", made_for="x")
    environment = CheckEnvironment(fingerprint="", copies=(copied,))
    attempt = await executing(harness, run, "a")
    await provision_checkout(environment, context.attempt_folder(run.id, attempt.id))
    staging = context.cache / ENVIRONMENTS / "staging"
    assert [path.suffix for path in staging.iterdir()] == [".note"]
    with harness.store.transaction():
        harness.store.baselines.hold(run.id, Baseline(environment=environment, runs=()), "tree")
    run = await harness.take(harness.orphan(run))
    await recover_run(context, run)
    assert list(staging.iterdir()) == []
