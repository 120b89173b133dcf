"""The worktrees of a run: reused, without anything of an earlier attempt."""

import asyncio
import os
import sys

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.fresh_checkout import _known_look, recycle_worktree
from scaffold.git.checkouts.worktree_metadata import set_checkout
from scaffold.git.checkouts.worktree_pool import SPARE_PREFIX, TAKEN_PREFIX, WorktreePool
from scaffold.git.refs import pin, resolve, work_ref
from scaffold.git.repository import checkout_status
from scaffold.host.child_environment import child_environment
from scaffold.host.process.child import start_child

TAKER = """
import asyncio, os, pathlib, sys
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.repository import open_repository, checkout_status
async def main(repository, folder, who):
    repo = await open_repository(pathlib.Path(repository), environ=os.environ)
    head, pool = (await checkout_status(repo)).head, WorktreePool(repo, pathlib.Path(folder))
    for n in range(4):
        slot = await pool.take(f"{who}{n}", head)
        mine = slot.git.cwd / "mine.log"
        assert not mine.exists(), "somebody was here"
        mine.write_text(who)
        await asyncio.sleep(0.02)
        assert mine.read_text() == who, "somebody is here"
        await pool.give_back(f"{who}{n}")
asyncio.run(main(*sys.argv[1:]))
"""

LEFT_IN_FILES = {
    "ignored files": "echo secret > x.log",
    "unknown files": "mkdir -p deep/er; echo u > deep/er/u",
    "empty folders": "mkdir -p hollow/er",
    "changed files": "echo x >> a; rm b/c",
    "staged files": "echo x > a; echo s > s; git add --all",
    "commits": "echo x > a; git commit -qam theirs; git checkout -q -b theirs; echo y > a; git commit -qam more",
    "a repository in a new folder": "git init -q inner; echo i > inner/i",
    "a repository in a folder of ours": "git init -q b",
    "a stash": "echo x > a; git stash -q",
    "a file git was told to look away from": "git update-index --skip-worktree a; echo x > a",
    "a file git was told to be unchanged": "git update-index --assume-unchanged a; echo x > a",
    "a file others may not write to": "chmod 444 a",
    "a file everybody may write to": "chmod 666 a",
    "a folder nobody may write to": "mkdir shut; touch shut/x; chmod 500 shut",
    "a tracked folder nobody may write to": "chmod 500 b",
    "a hard link": "mkdir ../elsewhere; rm a; seq 3 > ../elsewhere/a; ln ../elsewhere/a a",
    "a folder moved away and linked to": "mv b ../elsewhere; ln -s ../elsewhere b",
    "a link in place of a folder": "rm -r b; mkdir ../elsewhere; echo c > ../elsewhere/c; ln -s ../elsewhere b",
}
ODD = {
    "no pointer": "rm .git",
    "a pointer elsewhere": "git init -q ../other; echo 'gitdir: ../other/.git' > .git",
    "a repository of its own": "rm .git; git init -q",
    "an index lock": 'touch "$(git rev-parse --git-path index.lock)"',
    "settings of its own": "git config extensions.worktreeConfig true; git config --worktree core.worktree /nowhere",
    "sparse": "git sparse-checkout set --no-cone /a",
    "a merge": "git checkout -qb s; echo x>a; git commit -qam s; git checkout -q HEAD~1; echo y>a; git commit -qam y;"
    "git merge s || true",
    "a bisect": "git bisect start",
    "no registration": 'rm -r "$(git rev-parse --git-dir)"',
}


@pytest.fixture
def folder(tmp_path):
    """The folder of a run's worktrees."""
    return tmp_path / "cache" / "attempts"


@pytest.fixture
def pool(repo, folder):
    return WorktreePool(repo, folder)


def contents(root):
    """Every file, link and folder with its mode and bytes."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(root.rglob("*"))
        if path.name != ".git"
    }


async def test_a_reused_worktree_looks_fresh(repo, head, pool, folder):
    """AL-12"""
    first = await pool.take("a1", head)
    inode = first.git.cwd.stat().st_ino
    fresh = contents(first.git.cwd)
    await pool.give_back("a1")
    second = await pool.take("a2", head)
    assert (first.fresh, second.fresh) == (True, False)
    assert second.git.cwd == folder / "a2"
    assert second.git.cwd.stat().st_ino == inode
    assert contents(second.git.cwd) == fresh
    assert [each.path for each in await worktree.list_worktrees(repo)] == [repo.root, folder / "a2"]


@pytest.mark.slow
@pytest.mark.parametrize("left", LEFT_IN_FILES.values(), ids=LEFT_IN_FILES)
async def test_nothing_leaks_from_one_attempt_to_the_next(repo, head, sh, pool, left):
    """AL-12, BX-9: files, modes, links, hidden repositories and what the index was told."""
    fresh = contents((await pool.take("a1", head)).git.cwd)
    await sh(left, cwd=pool._folder / "a1")
    await pool.give_back("a1")
    slot = await pool.take("a2", head)
    assert contents(slot.git.cwd) == fresh
    assert not list(slot.git.cwd.glob("*/.git"))
    assert not (await slot.git("status", "--porcelain", "--ignored")).out
    assert {each[0] for each in (await slot.git("ls-files", "-v", "-z")).records} == {"H"}
    assert await resolve(slot.git, "HEAD") == head
    assert len(await worktree.list_worktrees(repo)) == 2


@pytest.mark.parametrize(
    "left",
    [
        "cp a x; cat x > a; touch -d @1000000000 a",
        "echo '3 2 1' | tr ' ' '\\n' > x; touch -r a x; cat x > a; touch -r x a; rm x",
        "git update-index --assume-unchanged a",
        "git checkout -q -b theirs",
        *(LEFT_IN_FILES[each] for each in ("ignored files", "empty folders", "a hard link")),
    ],
)
async def test_a_change_of_a_checkout_that_was_seen_fresh_is_seen_and_undone(repo, head, sh, pool, left):
    """AL-12: what has not changed is not cleaned again; sizes, times and what git tells do not hide a change."""
    slot = await pool.take("a1", head)
    fresh = contents(slot.git.cwd)
    while not (known := _known_look(slot.git.registration, slot.git.cwd)).commit:
        assert await recycle_worktree(slot.git, head)
    seen = [*known.stamps]
    assert await recycle_worktree(slot.git, head)
    assert known.stamps == seen
    await sh(left, cwd=slot.git.cwd)
    if not await recycle_worktree(slot.git, head):
        assert "; ln " in left, "only a link has to be replaced"
        return
    assert contents(slot.git.cwd) == fresh
    assert {each[0] for each in (await slot.git("ls-files", "-v", "-z")).records} == {"H"}
    assert (slot.git.registration / "HEAD").read_text() == f"{head}\n"


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["given back so", "made so while it was spare"])
@pytest.mark.parametrize("oddity", ODD.values(), ids=ODD)
async def test_an_irregular_worktree_is_recreated(repo, head, sh, pool, folder, oddity, before):
    """AL-15"""
    fresh = contents((await pool.take("a1", head)).git.cwd)
    if before:
        await sh(oddity, cwd=folder / "a1")
    await pool.give_back("a1")
    if not before:
        await sh(oddity, cwd=folder / f"{SPARE_PREFIX}a1")
    slot = await pool.take("a2", head)
    assert slot.fresh
    assert contents(slot.git.cwd) == fresh
    assert not (await slot.git("status", "--porcelain")).out
    assert len(await worktree.list_worktrees(repo)) == 2


async def test_a_worktree_stays_registered_while_it_is_renamed(repo, head, sh, pool, folder):
    """Also while no attempt uses it."""
    await pool.take("a1", head)
    (folder / "a1").rename(folder / "elsewhere")
    await sh("git worktree prune")
    (folder / "elsewhere").rename(folder / "a1")
    await pool.give_back("a1")
    assert not (await pool.take("a2", head)).fresh


async def test_there_are_no_more_worktrees_than_were_in_use_at_once(repo, head, pool, folder):
    """AL-12"""
    for wave in range(3):
        names = [f"w{wave}{n}" for n in range(3)]
        for name in names:
            await pool.take(name, head)
        assert len(await worktree.list_worktrees(repo)) == 4
        for name in names:
            await pool.give_back(name)
    assert len(list(folder.iterdir())) == 3


async def test_several_processes_never_take_the_same_worktree(repo, head, environ, folder, tmp_path):
    """AL-12"""
    env = child_environment(environ, {"GIT_CONFIG_GLOBAL": environ["GIT_CONFIG_GLOBAL"]})
    takers = [
        await start_child(
            [sys.executable, "-c", TAKER, str(repo.root), str(folder), who], cwd=tmp_path, env=env, log=tmp_path / "log"
        )
        for who in "xyz"
    ]
    assert [await taker.wait() for taker in takers] == [0, 0, 0], (tmp_path / "log").read_text()
    assert 1 <= len(list(folder.iterdir())) <= 3
    assert len(await worktree.list_worktrees(repo)) == 1 + len(list(folder.iterdir()))


async def test_pinned_work_outlives_its_worktree(repo, head, pool, people):
    """BX-3"""
    slot = await pool.take("a1", head)
    (slot.git.cwd / "a").write_text("work\n")
    work = await commit_all(slot.git, "work", **people)
    await pin(repo.git, work_ref("a1"), work)
    await pool.give_back("a1")
    again = await pool.take("a2", head)
    assert (again.git.cwd / "a").read_text() == "1\n2\n3\n"
    assert (await repo.git("show", f"{work_ref('a1')}:a")).line == "work"


async def test_a_recycled_worktree_can_be_reset_to_any_commit(repo, head, sh, pool):
    await pool.take("a1", head)
    await pool.give_back("a1")
    await sh("git rm -q b/c; echo new > b; git add b; chmod -x run; git commit -qam second")
    slot = await pool.take("a2", await resolve(repo.git, "HEAD"))
    assert not slot.fresh
    assert (slot.git.cwd / "b").read_text() == "new\n"
    assert not os.access(slot.git.cwd / "run", os.X_OK)


@pytest.mark.parametrize("when", ["before it is renamed", "before git knows"])
async def test_a_worktree_whose_process_was_killed_is_found_and_removed(repo, head, sh, pool, folder, when):
    """AL-15: as recovery does, by name."""
    await pool.take("a1", head)
    if when == "before git knows":
        (folder / "a1").rename(folder / "a2")
    else:
        (folder / "a1").rename(folder / f"{TAKEN_PREFIX}a2")
    for path in list(folder.iterdir()):
        await worktree.remove(repo, path)
    assert not list(folder.iterdir())
    assert len(await worktree.list_worktrees(repo)) == 1


async def test_work_in_a_worktree_can_be_committed_right_after_its_renaming(repo, head, pool, folder, people):
    """BX-3: its process was killed then."""
    slot = await pool.take("a1", head)
    set_checkout(slot.git.registration, folder / "a2")
    (folder / "a1").rename(folder / "a2")
    (folder / "a2" / "a").write_text("work\n")
    assert await commit_all(worktree.find_worktree(repo, folder / "a2"), "rescued", **people)


async def test_a_worktree_pointer_to_the_user_s_head_does_not_move_it(repo, head, pool, folder, people):
    """BX-9"""
    slot = await pool.take("a1", head)
    (slot.git.cwd / "a").write_text("strange\n")
    for operation in (
        lambda: commit_all(slot.git, "strange", **people),
        lambda: worktree.reset_and_clean(slot.git, head),
        lambda: worktree.restore(slot.git, head),
    ):
        (slot.git.cwd / ".git").write_text(f"gitdir: {repo.common_dir}\n")
        await operation()
        assert await resolve(repo.git, "HEAD") == await resolve(repo.git, "main") == head
    assert (repo.root / "a").read_text() == "1\n2\n3\n"
    assert not (await checkout_status(repo)).dirty


async def test_core_worktree_settings_are_not_followed(repo, head, sh, pool, folder, tmp_path):
    """BX-9: `clean` and `reset` would otherwise empty a folder of an agent's choice."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_text("mine")
    slot = await pool.take("a1", head)
    await sh(
        f"git config extensions.worktreeConfig true; git config --worktree core.worktree '{precious}'",
        cwd=folder / "a1",
    )
    await worktree.reset_and_clean(slot.git, head)
    await pool.give_back("a1")
    await pool.take("a2", head)
    assert [path.name for path in precious.iterdir()] == ["x"]


async def test_a_folder_that_is_not_ours_is_never_taken(repo, head, pool, folder):
    """BX-3"""
    (folder / "a1").mkdir(parents=True)
    (folder / "a1" / "precious").write_text("mine")
    with pytest.raises(GitError, match="a1"):
        await pool.take("a1", head)
    assert (folder / "a1" / "precious").exists()


async def test_concurrent_takers_get_different_worktrees(repo, head, pool, folder):
    async with asyncio.TaskGroup() as group:
        for n in range(5):
            group.create_task(pool.take(f"a{n}", head))
    assert len(await worktree.list_worktrees(repo)) == 6
