"""Worktrees that go from one attempt to the next."""

import pytest

from fakes import act, goal
from scaffold.core.events import NoticeRaised
from scaffold.git import refs
from scaffold.orchestrator.owner.recovery import recover_run
from scaffold.worker.workspace import open_workspace, rescue_and_remove

SUBMODULE = (
    "git init -q ../lib; cd ../lib; echo l > l; git add .; git commit -qm lib; cd - > /dev/null;"
    "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm submodule; rm -rf ../lib"
)


TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def inodes(house, run):
    folder = house.site.run_folder(run.id) / "attempts"
    return {path.stat().st_ino for path in folder.iterdir()}


async def test_the_next_attempt_gets_the_same_worktree_with_nothing_of_the_last_in_it(house):
    """AL-12: ignored and unknown files, whether the last attempt handed in or gave up."""
    await house.sh("echo '*.log' > .gitignore; git add .; git commit -qm ignore")
    clean = "test \"$(ls -A | sort | tr '\\n' ' ')\" = '.git .gitignore README list ' && "
    run = await house.own(
        goal("g", act("a", check="test -f a"), act("b", check="false"), act("c", check="test -f c")), iterations=1
    )
    await house.work(run, "a", "echo x > a; echo x > x.log; mkdir d; echo > d/e")
    slot = inodes(house, run)
    await house.work(run, "b", f"{clean}echo x > b; echo y > y.log")
    await house.work(run, "c", f"{clean}echo x > c")
    (attempt,) = house.attempts(run, "b")
    assert await house.sh(f"git show {attempt.head_sha}:b") == "x", "what came first was as fresh"
    (attempt,) = house.attempts(run, "c")
    assert (await house.sh(f"git diff --name-only {run.base_sha} {attempt.head_sha}")).split() == ["c"]
    assert inodes(house, run) == slot
    assert await house.worktrees() == 1


async def test_a_warning_says_no_secret(house):
    """BX-9: not even one that somebody took for a name."""
    await house.sh(SUBMODULE.replace(" lib;", f" {TOKEN};"))
    await house.sh(f"git submodule --quiet deinit --force {TOKEN}; rm -rf .git/modules/{TOKEN}")
    run = await house.own(goal("g", act("a")))
    await open_workspace(house.site, await house.queue(run, "a"))
    (told,) = [each.event.text for each in house.store.events.since(run.id, 0) if isinstance(each.event, NoticeRaised)]
    assert told.startswith("The submodule [redacted:")
    assert TOKEN not in told


@pytest.mark.slow
async def test_no_worktree_is_left_at_the_end_of_a_run(house):
    """AL-12: and in between no more than were in use at once."""
    run = await house.lay_out(goal("g", *(act(key, check=f"test -f {key}") for key in "abcd")), agents=2)
    ending = await house.carry_out(run, **{key: [f"echo x > {key}"] for key in "abcd"})
    assert ending.cause == "done"
    assert await house.worktrees() == 0
    assert not list(house.site.run_folder(run.id).glob("*/*/.git"))


async def test_spare_worktrees_of_a_dead_owner_go_with_recovery(house):
    """AL-15"""
    run = await house.own(goal("g", act("a", check="test -f a")))
    await house.work(run, "a", "echo x > a")
    assert await house.worktrees() == 1
    await recover_run(house.site, run)
    assert await house.worktrees() == 0


async def test_a_submodule_that_cannot_be_had_is_told_once(house):
    await house.sh(SUBMODULE)
    await house.sh("git submodule --quiet deinit --force lib; rm -rf .git/modules/lib")
    run = await house.own(goal("g", act("a"), act("b")))
    for key in ("a", "b"):
        workspace = await open_workspace(house.site, await house.queue(run, key))
        assert not list((workspace.path / "lib").iterdir())
    told = [each.event.text for each in house.store.events.since(run.id, 0) if isinstance(each.event, NoticeRaised)]
    assert len(told) == 1
    assert told[0].startswith("The submodule lib stays empty")
    assert "git submodule update --init" in told[0]


async def test_what_a_killed_worker_did_in_a_submodule_is_rescued(house):
    """BX-3"""
    await house.sh(SUBMODULE)
    run = await house.own(goal("g", act("a")))
    attempt = await house.queue(run, "a")
    workspace = await open_workspace(house.site, attempt)
    with house.store.transaction():
        house.store.attempts.claim(attempt.id, fence=run.fence, worker=run.owner, worktree="", log_file="")
        house.store.attempts.advance(attempt.id, fence=run.fence, phase="executing")
    (workspace.path / "lib" / "l").write_text("changed\n")
    pinned = await rescue_and_remove(house.site, run, attempt.id)
    assert await house.sh(f"git diff --name-only {run.base_sha} {pinned}") == "lib"
    inner = house.site.git.at(house.repo / "lib")
    kept = await refs.list_refs(inner, "refs/scaffold/keep/")
    assert [await house.sh(f"git show {commit}:l", cwd=inner.cwd) for commit in kept.values()] == ["changed"]
    assert await house.worktrees() == 0
