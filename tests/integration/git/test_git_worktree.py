"""Worktrees."""

import asyncio
import sys

import pytest

from builders import commit_all
from scaffold.core.errors import GitError, RepositoryError
from scaffold.git.checkouts import worktree
from scaffold.git.commits import changed_paths
from scaffold.git.refs import move, pin, resolve, work_ref
from scaffold.git.repository import checkout_status, open_repository
from scaffold.host.atomic_files import FileLock
from scaffold.host.child_environment import child_environment
from scaffold.host.process.child import start_child

ADDER = """
import asyncio, os, pathlib, sys
from scaffold.git.repository import open_repository, checkout_status
from scaffold.git.checkouts.worktree import add
async def main(repository, *places):
    repo = await open_repository(pathlib.Path(repository), environ=os.environ)
    head = (await checkout_status(repo)).head
    async with asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(add(repo, pathlib.Path(place), head))
asyncio.run(main(*sys.argv[1:]))
"""

HOOKS = (
    *("post-checkout", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change"),
    *("reference-transaction", "pre-merge-commit", "post-merge", "post-rewrite", "pre-auto-gc"),
)


@pytest.fixture
def place(tmp_path):
    """The path of a worktree."""
    return tmp_path / "cache" / "wörk tree"


def snapshot(root):
    """Every file below, the index included, with its bytes and its time."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and (".git" not in path.parts or path.name in {"index", "HEAD"})
    }


async def test_a_worktree_is_detached_and_clean(repo, head, place):
    git = await worktree.add(repo, place, head)
    assert (place / "a").read_text() == "1\n2\n3\n"
    assert not (await git("status", "--porcelain")).out
    _, added = await worktree.list_worktrees(repo)
    assert added == worktree.Worktree(path=place, head=head, branch=None, locked=False)


async def test_several_processes_add_worktrees_concurrently(repo, environ, tmp_path):
    """AL-12"""
    env = child_environment(environ, {"GIT_CONFIG_GLOBAL": environ["GIT_CONFIG_GLOBAL"]})
    adders = [
        await start_child(
            [sys.executable, "-c", ADDER, str(repo.root), *(str(tmp_path / f"w{n}{m}") for m in range(3))],
            cwd=tmp_path,
            env=env,
            log=tmp_path / "log",
        )
        for n in range(3)
    ]
    assert [await adder.wait() for adder in adders] == [0, 0, 0], (tmp_path / "log").read_text()
    assert len(await worktree.list_worktrees(repo)) == 10


async def test_adding_waits_for_another_process_that_adds(repo, head, place):
    """AL-12"""
    async with FileLock(repo.common_dir / "scaffold" / "worktree.lock", timeout_s=1):
        adding = asyncio.create_task(worktree.add(repo, place, head))
        await asyncio.sleep(0.2)
        assert not place.exists()
    await adding
    assert place.exists()


async def test_only_what_is_left_in_a_worktree_is_undone(git_starts, repo, head, sh, place):
    """W10: by one process of git if nothing is; ignored files stay."""
    git = await worktree.add(repo, place, head)
    await worktree.restore(git, head)  # which reads the settings, once

    def there():
        return {path: path.is_file() and path.read_bytes() for path in place.rglob("*")}

    fresh, counts = there(), {}
    for left in (
        "true",
        "touch new",
        "mkdir -p deep/empty",
        "echo x > a",
        "rm a; mkdir a; touch a/b",
        "git rm -q a; touch new",
    ):
        await sh(left, cwd=place)
        git_starts()
        await worktree.restore(git, head)
        counts[left] = git_starts()
        assert there() == fresh, left
    (place / "kept.log").write_text("log")
    await worktree.restore(git, head)
    assert (place / "kept.log").exists()
    assert counts == {
        "true": 1,
        "touch new": 2,
        "mkdir -p deep/empty": 2,
        "echo x > a": 2,
        "rm a; mkdir a; touch a/b": 2,
        "git rm -q a; touch new": 3,
    }


async def test_no_hook_of_the_user_ever_runs(repo, head, sh, place, tmp_path, people):
    """Neither those in the repository nor those named by settings."""
    ran = tmp_path / "ran"
    for hook in HOOKS:
        for folder in (repo.common_dir / "hooks", tmp_path / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / hook).write_text(f"#!/bin/sh\necho {hook} >> '{ran}'\nexit 1\n")
            (folder / hook).chmod(0o755)
    await sh(f"git config core.hooksPath '{tmp_path / 'hooks'}'; git config core.fsmonitor 'touch {ran}'")
    git = await worktree.add(repo, place, head)
    (place / "a").write_text("new")
    commit = await commit_all(git, "message", **people)
    await pin(git, work_ref("a1"), commit)
    assert await move(git, "refs/heads/session", new=commit, old=None)
    await worktree.restore(git, head)
    await worktree.reset_and_clean(git, head)
    await worktree.remove(repo, place)
    assert not ran.exists()


async def test_a_dirty_checkout_is_not_changed_by_a_byte(repo, head, sh, place, people):
    """BX-9"""
    await sh(
        "echo staged > b/c; git add b/c; echo unstaged >> a; echo unknown > unknown; rm run;"
        "touch -d 2001-01-01 .gitignore"
    )
    before = snapshot(repo.root)
    git = await worktree.add(repo, place, head)
    (place / "a").write_text("new")
    commit = await commit_all(git, "message", **people)
    await move(repo.git, "refs/heads/session", new=commit, old=None)
    await worktree.reset_and_clean(git, commit)
    await worktree.list_worktrees(repo)
    await worktree.remove(repo, place)
    assert snapshot(repo.root) == before


async def test_a_worktree_can_be_added_from_a_linked_worktree(repo, head, sh, environ, tmp_path, place):
    await sh(f"git worktree add -q --detach '{tmp_path / 'linked'}'")
    linked = await open_repository(tmp_path / "linked", environ=environ)
    await worktree.add(linked, place, head)
    await worktree.remove(linked, place)
    assert [one.path for one in await worktree.list_worktrees(repo)] == [repo.root, tmp_path / "linked"]


@pytest.mark.parametrize(
    "leftover",
    [
        "mkdir -p '{0}'",
        "git worktree add -q --no-checkout --detach '{0}'; echo x > '{0}/x'",
        "git worktree add -q --detach '{0}'; git worktree lock '{0}'",
        "git worktree add -q --detach '{0}'; rm -rf '{0}'",
        "git worktree add -q --detach '{0}'; rm '{0}/.git'",
        "git worktree add -q --detach '{0}'; rm -rf .git/worktrees",
        "git worktree add -q --detach '{0}'; mkdir '{0}/shut'; touch '{0}/shut/x'; chmod 500 '{0}/shut'",
    ],
    ids=["empty", "half made", "locked", "files gone", "pointer gone", "registration gone", "folder shut"],
)
async def test_remains_of_an_earlier_try_are_replaced(repo, head, sh, place, leftover):
    """AL-15"""
    await sh(leftover.format(place))
    git = await worktree.add(repo, place, head)
    assert not (await git("status", "--porcelain")).out
    assert sorted(path.name for path in place.iterdir()) == [".git", ".gitignore", "a", "b", "run"]
    assert len(await worktree.list_worktrees(repo)) == 2


@pytest.mark.parametrize("stranger", ["mkdir -p '{0}'; echo mine > '{0}/precious'", "git init -q '{0}'"])
async def test_a_folder_that_is_not_ours_is_never_removed(repo, head, sh, place, stranger):
    """BX-3"""
    await sh(stranger.format(place))
    before = sorted(place.rglob("*"))
    with pytest.raises(GitError, match=place.name):
        await worktree.add(repo, place, head)
    with pytest.raises(GitError, match=place.name):
        await worktree.remove(repo, place)
    assert sorted(place.rglob("*")) == before


async def test_the_user_s_own_checkout_is_never_removed(repo):
    with pytest.raises(GitError, match=repo.root.name):
        await worktree.remove(repo, repo.root)
    assert (repo.root / "a").exists()


async def test_a_missing_commit_leaves_nothing_behind(repo, place):
    with pytest.raises(GitError):
        await worktree.add(repo, place, "0" * 39 + "1")
    assert not place.exists()
    assert len(await worktree.list_worktrees(repo)) == 1


async def test_removal_is_complete_and_idempotent(repo, head, place):
    await worktree.add(repo, place, head)
    (place / "unknown").write_text("x")
    await worktree.remove(repo, place)
    await worktree.remove(repo, place)
    assert not place.exists()
    assert len(await worktree.list_worktrees(repo)) == 1


async def test_the_registration_of_another_missing_worktree_is_kept(repo, head, sh, place, tmp_path):
    """It may be on a disk that is not connected."""
    await sh(f"git worktree add -q '{tmp_path / 'usb'}'; mv '{tmp_path / 'usb'}' '{tmp_path / 'unplugged'}'")
    await worktree.add(repo, place, head)
    await worktree.remove(repo, place)
    assert tmp_path / "usb" in {one.path for one in await worktree.list_worktrees(repo)}


async def test_the_checkout_of_a_branch_is_found(repo, sh, tmp_path):
    await sh(f"git branch free; git worktree add -q -b 'team/fea-ture' '{tmp_path / 'elsewhere'}'")
    assert [each.path for each in await worktree.worktrees_on_branch(repo, "main")] == [repo.root]
    assert [each.path for each in await worktree.worktrees_on_branch(repo, "team/fea-ture")] == [tmp_path / "elsewhere"]
    assert await worktree.worktrees_on_branch(repo, "free") == ()


STOPPED = {
    "rebase": "git rebase -q main || true",
    "rebase by patches": "git rebase -q --apply main || true",
    "bisect": "git bisect start HEAD HEAD~4 > /dev/null 2>&1",
    "bisect that went on": "git bisect start HEAD HEAD~4 > /dev/null 2>&1; git bisect good > /dev/null 2>&1",
}


@pytest.mark.slow
@pytest.mark.parametrize("stopped", STOPPED.values(), ids=STOPPED)
@pytest.mark.parametrize("place", ["linked", "main"])
async def test_a_branch_in_the_middle_of_an_operation_counts_as_checked_out(repo, sh, tmp_path, stopped, place):
    """BX-3: HEAD is detached then, and git itself refuses to move the branch."""
    there = tmp_path / "elsewhere" if place == "linked" else repo.root
    await sh("for each in 1 2 3; do echo $each >> b/c; git commit -qam $each; done; git branch topic HEAD~1")
    await sh("git switch -q topic; echo other > b/c; git commit -qam other; git commit -q --allow-empty -m 5")
    if place == "linked":
        await sh(f"git switch -q main; git worktree add -q '{there}' topic")
    await sh(stopped, cwd=there)
    (found,) = await worktree.worktrees_on_branch(repo, "topic")
    assert (found.path, found.branch) == (there, None)
    refusal = await sh("git branch -f topic HEAD~1 2>&1", ok=False)
    assert "topic" in refusal, "git moves it"
    assert "Force" not in refusal
    assert [each.path for each in await worktree.worktrees_on_branch(repo, "main")] == (
        [repo.root] if place == "linked" else []
    )


async def test_a_branch_that_a_rebase_will_move_with_others_counts_as_checked_out(repo, sh):
    """BX-3: `rebase --update-refs`."""
    await sh("echo 1 > b/c; git commit -qam 1; git switch -qc low HEAD~1; echo 2 > b/c; git commit -qam 2")
    await sh("git switch -qc high; echo 3 > d; git add d; git commit -qm 3; git rebase -q --update-refs main || true")
    for branch in ("low", "high"):
        assert [each.path for each in await worktree.worktrees_on_branch(repo, branch)] == [repo.root]


async def test_the_checkout_of_a_bare_repository_is_found(sh, tmp_path, environ, repo):
    """BX-3: its own HEAD is no checkout."""
    await sh(
        f"git clone -q --bare . '{tmp_path}/bare'; git -C '{tmp_path}/bare' worktree add -q -b one '{tmp_path}/one'"
    )
    opened = await open_repository(tmp_path / "one", environ=environ)
    assert [each.path for each in await worktree.worktrees_on_branch(opened, "one")] == [tmp_path / "one"]
    assert await worktree.worktrees_on_branch(opened, "main") == ()


async def test_the_checkout_of_a_submodule_is_found(sh, tmp_path, environ, repo):
    """BX-3: its git directory is in that of the repository around it."""
    await sh(
        f"git init -q '{tmp_path}/top'; cd '{tmp_path}/top';"
        f"git -c protocol.file.allow=always submodule --quiet add '{repo.root}' sub"
    )
    opened = await open_repository(tmp_path / "top" / "sub", environ=environ)
    assert len(await worktree.worktrees_on_branch(opened, "main")) == 1


MESS = (
    "echo x > a; rm b/c; git rm -q --cached run; echo u > unknown; mkdir d; echo u > d/u; echo l > x.log;"
    "git init -q inner; echo i > inner/i; git checkout -q -b theirs; echo y > y; git add y; git commit -qm theirs;"
    'touch "$(git rev-parse --git-path index.lock)"'
)


@pytest.mark.parametrize(("way", "left"), [(worktree.restore, ["x.log"]), (worktree.reset_and_clean, [])])
async def test_a_used_worktree_is_reset_to_the_commit(repo, head, sh, place, way, left):
    git = await worktree.add(repo, place, head)
    await sh(MESS, cwd=place)
    await way(git, head)
    assert sorted(path.name for path in place.iterdir()) == sorted([".git", ".gitignore", "a", "b", "run", *left])
    assert await resolve(git, "HEAD") == head
    assert not (await git("status", "--porcelain")).out
    assert await resolve(git, "theirs~1") == head, "a branch made meanwhile stays where it is"


@pytest.mark.parametrize(
    "told",
    [
        "git update-index --skip-worktree a; echo x > a",
        "git update-index --assume-unchanged b/c; echo x > b/c",
        "git sparse-checkout set --no-cone /a",
        "git sparse-checkout set --cone --sparse-index b",
        "git update-index --split-index; git update-index --skip-worktree run; rm run",
        'echo broken > "$(git rev-parse --git-path index)"; echo x > a',
        "git add -N new; touch new; git add -N new",
    ],
    ids=["skip", "unchanged", "sparse", "sparse index", "split index", "broken index", "intent to add"],
)
async def test_a_used_worktree_is_complete_whatever_flags_its_index_has(repo, head, sh, place, told):
    """What lands is what passed: later checks must see every file as it is."""
    git = await worktree.add(repo, place, head)
    for version in (2, 4):
        await sh(f"git update-index --index-version {version}; {told}", cwd=place, ok=False)
        await worktree.reset_and_clean(git, head)
        assert sorted(path.name for path in place.iterdir()) == [".git", ".gitignore", "a", "b", "run"]
        assert ((place / "a").read_text(), (place / "b" / "c").read_text()) == ("1\n2\n3\n", "c\n")
        assert {each[0] for each in (await git("ls-files", "-v", "-z")).records} == {"H"}


async def test_an_ordinary_index_is_reused(repo, head, sh, place):
    """So that only what changed is written."""
    git = await worktree.add(repo, place, head)
    written = (place / "a").stat().st_mtime_ns
    for version in (2, 3, 4):
        await sh(f"git update-index --index-version {version}", cwd=place)
        await worktree.reset_and_clean(git, head)
    assert (place / "a").stat().st_mtime_ns == written


@pytest.mark.parametrize("unfinished", ["merge side", "rebase side", "cherry-pick side", "bisect start"])
async def test_unfinished_operations_in_a_used_worktree_are_discarded(repo, head, sh, environ, place, unfinished):
    git = await worktree.add(repo, place, head)
    await sh(
        "echo x > a; git commit -qam x; git branch side; git checkout -q --detach HEAD~1; echo y > a;"
        f"git commit -qam y; git {unfinished} || true",
        cwd=place,
    )
    at_place = await open_repository(place, environ=environ)
    with pytest.raises(RepositoryError):
        await checkout_status(at_place)
    await worktree.reset_and_clean(git, head)
    assert not (await checkout_status(at_place)).dirty


async def test_a_worktree_without_its_git_file_is_not_taken_for_part_of_its_surroundings(repo, head, sh, people):
    inside = repo.root / "inside"
    git = await worktree.add(repo, inside, head)
    (inside / ".git").unlink()
    (inside / "a").write_text("work\n")
    work = await commit_all(git, "work", **people)
    assert await changed_paths(repo.git, head, work) == ("a",)
    assert await resolve(repo.git, "main") == head
