"""Worktrees that are reused by the next attempt."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import GitError
from scaffold.git import refs
from scaffold.host.atomic_files import delete_path
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.run.ignored_archive import archived_files
from scaffold.worker.workspace.attempt_worktree import open_workspace, rescue_and_remove
from support.harness import act, goal

SUBMODULE = (
    "git init -q ../lib; cd ../lib; echo l > l; git add .; git commit -qm lib; cd - > /dev/null;"
    "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm submodule; rm -rf ../lib"
)


TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def inodes(harness, run):
    folder = harness.context.run_folder(run.id) / "attempts"
    return {path.stat().st_ino for path in folder.iterdir()}


@pytest.mark.slow
async def test_the_next_attempt_gets_the_same_worktree_without_anything_of_the_last(harness):
    """AL-12: ignored and unknown files, whether the last attempt succeeded or failed."""
    await harness.sh("echo '*.log' > .gitignore; git add .; git commit -qm ignore")
    clean = "test \"$(ls -A | sort | tr '\\n' ' ')\" = '.git .gitignore README list ' && "
    run = await harness.own(
        goal("g", act("a", check="test -f a"), act("b", check="false"), act("c", check="test -f c")), iterations=1
    )
    await harness.work(run, "a", "echo x > a; echo x > x.log; mkdir d; echo > d/e")
    slot = inodes(harness, run)
    await harness.work(run, "b", f"{clean}echo x > b; echo y > y.log")
    await harness.work(run, "c", f"{clean}echo x > c")
    (attempt,) = harness.attempts(run, "b")
    assert await harness.sh(f"git show {attempt.head_sha}:b") == "x", "what came first was as fresh"
    (attempt,) = harness.attempts(run, "c")
    assert (await harness.sh(f"git diff --name-only {run.base_sha} {attempt.head_sha}")).split() == ["c"]
    assert inodes(harness, run) == slot
    assert await harness.worktrees() == 1


async def test_a_worktree_that_was_removed_is_known_to_be_gone_although_it_is_there_again(harness):
    """AL-27: git's commands write a `.git` that is missing, and a new folder may have the old one's inode."""
    run = await harness.own(goal("g", act("a")))
    workspace = await open_workspace(harness.context, await harness.queue(run, "a"))
    workspace.require_present()
    pointer = workspace.path / ".git"
    was = pointer.read_bytes()
    delete_path(workspace.path)
    with pytest.raises(GitError, match="was removed"):
        workspace.require_present()
    workspace.path.mkdir()
    pointer.write_bytes(was)
    with pytest.raises(GitError, match="was removed"):
        workspace.require_present()


async def test_a_warning_contains_no_secret(harness):
    """BX-9: not even one that was mistaken for a name."""
    await harness.sh(SUBMODULE.replace(" lib;", f" {TOKEN};"))
    await harness.sh(f"git submodule --quiet deinit --force {TOKEN}; rm -rf .git/modules/{TOKEN}")
    run = await harness.own(goal("g", act("a")))
    await open_workspace(harness.context, await harness.queue(run, "a"))
    (notices,) = harness.notices(run)
    assert notices.startswith("The submodule [redacted:")
    assert TOKEN not in notices


@pytest.mark.slow
async def test_recovery_removes_spare_worktrees_of_a_dead_owner(harness):
    """AL-15"""
    run = await harness.own(goal("g", act("a", check="test -f a")))
    await harness.work(run, "a", "echo x > a")
    assert await harness.worktrees() == 1
    await recover_run(harness.context, run)
    assert await harness.worktrees() == 0


async def test_an_unavailable_submodule_raises_one_notice(harness):
    await harness.sh(SUBMODULE)
    await harness.sh("git submodule --quiet deinit --force lib; rm -rf .git/modules/lib")
    run = await harness.own(goal("g", act("a"), act("b")))
    for key in ("a", "b"):
        workspace = await open_workspace(harness.context, await harness.queue(run, key))
        assert not list((workspace.path / "lib").iterdir())
    assert harness.notices(run) == snapshot(
        [
            (
                "The submodule lib stays empty: its repository is missing: run `git submodule update --init` in "
                "your checkout."
            )
        ]
    )


@pytest.mark.slow
async def test_work_of_a_killed_worker_in_a_submodule_is_rescued(harness):
    """BX-3: also what git ignores there, even if the agent took the submodule out of the index."""
    await harness.sh(SUBMODULE)
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    workspace = await open_workspace(harness.context, attempt)
    harness.claim(attempt, "executing", worker=run.owner)
    (workspace.path / "lib" / "l").write_text("changed\n")
    await harness.sh("echo '*.log' >> $(git rev-parse --git-common-dir)/info/exclude", cwd=workspace.path / "lib")
    (workspace.path / "lib" / "x.log").write_text("ignored\n")
    await workspace.git("update-index", "--force-remove", "lib")
    pinned = await rescue_and_remove(harness.context, run, attempt.id)
    assert await harness.sh(f"git diff --name-only {run.base_sha} {pinned}") == "lib"
    assert archived_files(harness.repo / ".git", attempt.id) == ("lib/x.log",)
    inner = harness.context.git.at(harness.repo / "lib")
    kept = await refs.list_refs(inner, "refs/scaffold/keep/")
    assert [await harness.sh(f"git show {commit}:l", cwd=inner.cwd) for commit in kept.values()] == ["changed"]
    assert await harness.worktrees() == 0


async def test_work_beside_a_repository_planted_in_a_submodule_s_place_is_rescued_without_entering_it(
    harness, tmp_path
):
    """BX-3, BX-9: its files too, as its history could hide them."""
    ran, canary = tmp_path / "ran", tmp_path / "canary"
    canary.write_text(f"#!/bin/sh\necho ran >> '{ran}'\ncat\n")
    canary.chmod(0o755)
    await harness.sh(
        "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),gone; git commit -qm gitlink; mkdir gone"
    )
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    workspace = await open_workspace(harness.context, attempt)
    harness.claim(attempt, "executing", worker=run.owner)
    await harness.sh(
        f"cd gone; git init -q; seq 3 > n; git add n; git commit -qm n; git config filter.x.clean '{canary}';"
        f"git config core.fsmonitor '{canary}'; echo '* filter=x' > .git/info/attributes; touch n; echo l > ../l",
        cwd=workspace.path,
    )
    pinned = await rescue_and_remove(harness.context, run, attempt.id)
    names = (await harness.sh(f"git diff --name-only {run.base_sha} {pinned}")).split()
    assert {"gone/n", "gone/nested.git/HEAD", "l"} <= set(names)
    assert not ran.exists()
