"""Objects that a collection of the user's deletes in the moment in which something new refers to them."""

import os
import shutil

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.git.client.command_errors import ObjectsCollected
from scaffold.git.commits import commit_tree, read_commit
from scaffold.git.repository import open_repository

COLLECTING = """#!/bin/sh
REAL "$@" || exit
case " $* " in *" MOMENT "*) ;; *) exit 0 ;; esac
[ "$(cat LEFT)" -gt 0 ] || exit 0
echo $(($(cat LEFT) - 1)) > LEFT
LOSE
REAL pack-refs --all
"""
"""A git during whose `update-ref` a collection, which had looked before, deletes something; as often as `left` says."""


@pytest.fixture
def collecting(tmp_path, environ):
    """Return what makes git collect at a moment; it loses the object that the shell code names."""

    def collecting(moment, lost, *, times=1):
        programs, left = tmp_path / "programs", tmp_path / "left"
        programs.mkdir()
        left.write_text(f"{times}\n")
        real = shutil.which("git")
        folder = f"$({real} rev-parse --git-common-dir)/objects"
        lose = f'lost=$({lost}); rm -f "{folder}/${{lost%${{lost#??}}}}/${{lost#??}}"'
        script = COLLECTING.replace("REAL", real).replace("MOMENT", moment).replace("LEFT", str(left))
        script = script.replace("LOSE", lose)
        (programs / "git").write_text(script)
        (programs / "git").chmod(0o755)
        environ["PATH"] = os.pathsep.join([str(programs), environ["PATH"]])
        return left

    return collecting


@pytest.fixture
async def place(repo, head, tmp_path, environ, collecting):
    """Return a worktree of ours, opened with the environment as it is then."""

    async def place():
        opened = await open_repository(repo.root, environ=environ)
        return await worktree.add(opened, tmp_path / "work", head)

    return place


LATEST = "cd $(git rev-parse --git-common-dir)/objects; ls -t ??/* | head -1 | tr -d /"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "lost"),
    [
        *((before, LATEST) for before in ("add --all", "write-tree", "commit-tree")),
        *(("update-ref --stdin", f"git rev-parse {part}") for part in ("HEAD", "HEAD^{tree}", "HEAD:a")),
    ],
)
async def test_a_commit_of_which_a_part_was_collected_is_made_again(collecting, place, sh, people, moment, lost):
    """BX-2, BX-10: `git gc --prune=now` in the middle of a commit; the next command of git may fail then."""
    left = collecting(moment, lost)
    git = await place()
    (git.cwd / "a").write_text("new\n")
    commit = await commit_all(git, "work", **people)
    assert left.read_text() == "0\n"
    assert await sh(f"git show {commit}:a") == "new\n"
    # HEAD's log still names the commit that was collected, unless the second one was made within the same second.
    assert await sh("git fsck --no-dangling --no-reflogs", cwd=git.cwd) == ""


async def test_a_lasting_failure_after_a_collection_is_told_as_it_is(place, sh, repo, people):
    git = await place()
    await sh("git pack-refs --all")
    (git.cwd / "nested").mkdir()
    (git.cwd / "a").write_text("new\n")
    (git.registration / "HEAD").write_text(f"{'1' * 40}\n")
    with pytest.raises(GitError, match="1111"):
        await commit_all(git, "work", **people)


async def test_a_commit_that_is_collected_each_time_is_an_error_and_leaves_head_as_it_was(
    collecting, place, head, people
):
    collecting("update-ref --stdin", f"git rev-parse HEAD | grep -v {head}", times=99)
    git = await place()
    (git.cwd / "a").write_text("new\n")
    with pytest.raises(ObjectsCollected):
        await commit_all(git, "work", **people)
    assert await refs.resolve(git, "HEAD") == head
    assert (git.cwd / "a").read_text() == "new\n"


async def test_a_branch_is_not_moved_to_a_commit_of_which_a_part_was_collected(
    collecting, repo, sh, head, people, environ
):
    """BX-2: it is as before, what is landing keeps its ref, and the landing is repeated."""
    await sh(f"git update-ref refs/heads/session {head}; git update-ref refs/scaffold/work/a {head}")
    await sh("echo new > a; git add a")
    tree = (await sh("git write-tree")).strip()
    collecting("--stdin", "git rev-parse session:a")
    git = (await open_repository(repo.root, environ=environ)).git
    new = await commit_tree(git, tree, parents=[head], message="landing", **people)
    places = {"ref": "refs/heads/session", "drop": "refs/scaffold/work/a"}
    with pytest.raises(ObjectsCollected):
        await refs.move_and_delete(git, places["ref"], new=new, old=head, drop={places["drop"]: head})
    assert [await refs.resolve(git, name) for name in places.values()] == [head, head]
    assert new not in (repo.common_dir / "logs/refs/heads/session").read_text(), "`git fsck` would complain"
    await sh("git hash-object -w a")
    assert await refs.move_and_delete(git, places["ref"], new=new, old=head, drop={places["drop"]: head})
    assert (await read_commit(git, "session")).commit == new


@pytest.mark.slow
async def test_a_collection_that_runs_is_waited_for(repo, sh, head, people, environ, tmp_path):
    git = (await open_repository(repo.root, environ=environ)).git
    await sh("sleep 1 & echo $! host > .git/gc.pid; (sleep 0.3; rm .git/gc.pid) &")
    assert await git.still_has(head, known=head)
    assert not (repo.common_dir / "gc.pid").exists()


async def test_the_pid_file_of_a_killed_collection_holds_up_nothing(repo, sh, head, environ):
    await sh("sh -c 'echo $$ host > .git/gc.pid'")
    git = (await open_repository(repo.root, environ=environ)).git
    assert not git._collections.has_run()


async def test_a_ref_is_not_set_to_work_of_which_a_part_was_collected(collecting, repo, sh, head, people, environ):
    """BX-2, BX-10: neither a new one nor one that is moved."""
    await sh("echo new > a; git add a")
    tree = (await sh("git write-tree")).strip()
    collecting("refs/scaffold/rescue/a", "git rev-parse refs/scaffold/rescue/a:a", times=3)
    git = (await open_repository(repo.root, environ=environ)).git
    new = await commit_tree(git, tree, parents=[head], message="work", **people)
    with pytest.raises(ObjectsCollected):
        await refs.move(git, "refs/scaffold/rescue/a", new=new, old=None, known=head)
    assert await refs.resolve(git, "refs/scaffold/rescue/a") is None
    await sh("git hash-object -w a")
    with pytest.raises(ObjectsCollected):
        await refs.pin(git, "refs/scaffold/rescue/a", new, known=head)
    assert await refs.resolve(git, "refs/scaffold/rescue/a") is None
    await sh("git hash-object -w a")
    assert await refs.move(git, "refs/scaffold/rescue/a", new=new, old=None, known=head)


async def test_a_ref_that_leads_to_nothing_is_in_nobodys_way(repo, sh, head, environ):
    await sh(f"mkdir -p .git/refs/scaffold/rescue; echo {'12345' * 8} > .git/refs/scaffold/rescue/a")
    git = (await open_repository(repo.root, environ=environ)).git
    assert await refs.move(git, "refs/scaffold/rescue/a", new=head, old=None)
    assert await refs.resolve(git, "refs/scaffold/rescue/a") == head
