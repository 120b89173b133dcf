"""Submodules: from local objects only, and nothing done in them is lost."""

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.submodule import KEEP_PREFIX, Gitlink, missing_gitlinks
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.commits import changed_paths, commit_tree, diff_text, path_changes, submodule_changes
from scaffold.git.refs import list_refs, pin, resolve, work_ref
from scaffold.git.repository import checkout_status, open_repository
from scaffold.git.trees.merge import Conflicted, Merged, merge_commits

ADD = "git -c protocol.file.allow=always submodule --quiet add"


@pytest.fixture
async def repo(make):
    """A repository with a submodule `lib/ouß` that has a submodule `in ner`; their origins are gone."""
    return await make(
        "here=$PWD; mkdir ../inner ../outer; cd ../inner; git init -q; echo i > i; git add .; git commit -qm inner;"
        f"cd ../outer; git init -q; echo o > o; echo '*.log' > .gitignore; {ADD} $here/../inner 'in ner'; git add .;"
        f"git commit -qm outer; cd $here; git init -q; echo a > a; {ADD} $here/../outer 'lib/ouß'; git add .;"
        "git commit -qm all; git -c protocol.file.allow=always submodule --quiet update --init --recursive;"
        "rm -rf ../inner ../outer"
    )


@pytest.fixture
def pool(repo, tmp_path):
    return WorktreePool(repo, tmp_path / "cache" / "attempts")


OUTER, INNER = "lib/ouß", "lib/ouß/in ner"


async def state(sh, repo):
    return await sh(
        "git status --porcelain; git submodule status --recursive; git worktree list | wc -l", cwd=repo.root
    )


async def test_submodules_are_checked_out_from_local_objects(repo, head, pool, sh):
    before = await state(sh, repo)
    slot = await pool.take("a1", head)
    assert slot.missing == ()
    assert (slot.git.cwd / OUTER / "o").read_text() == "o\n"
    assert (slot.git.cwd / INNER / "i").read_text() == "i\n"
    assert not (await slot.git("status", "--porcelain", "--ignored")).out
    assert not await sh("git status --porcelain", cwd=slot.git.cwd / OUTER), "the agent's own git sees it, too"
    await pool.give_back("a1")
    await worktree.remove(repo, pool._folder / "spare-a1")
    assert await state(sh, repo) == before
    assert not list(repo.common_dir.glob("modules/**/worktrees/*"))


async def test_no_change_in_a_submodule_leaks_into_the_next_attempt(repo, head, pool, sh):
    slot = await pool.take("a1", head)
    await sh(f"echo x > '{OUTER}/o'; echo x > '{OUTER}/x.log'; echo x > '{INNER}/new'", cwd=slot.git.cwd)
    await pool.give_back("a1")
    again = await pool.take("a2", head)
    assert not again.fresh
    assert sorted(path.name for path in (again.git.cwd / OUTER).iterdir()) == [
        *(".git", ".gitignore", ".gitmodules", "in ner", "o")
    ]
    assert sorted(path.name for path in (again.git.cwd / INNER).iterdir()) == [".git", "i"]
    assert (again.git.cwd / OUTER / "o").read_text() == "o\n"


@pytest.mark.slow
async def test_a_candidate_may_change_a_submodule(repo, head, pool, sh, people):
    """BX-3: the change is committed and kept there, and lands as a new pointer."""
    slot = await pool.take("a1", head)
    await sh(f"echo changed > '{INNER}/i'; echo new > '{OUTER}/new'", cwd=slot.git.cwd)
    work = await commit_all(slot.git, "work", **people)
    assert await changed_paths(repo.git, head, work) == (OUTER,)
    await pin(repo.git, work_ref("a1"), work)
    await pool.give_back("a1")
    landing = await worktree.add(repo, pool._folder.parent / "landing", work)
    assert (landing.cwd / INNER / "i").read_text() == "changed\n"
    assert (landing.cwd / OUTER / "new").read_text() == "new\n"
    await worktree.reset_and_clean(landing, head)
    assert (landing.cwd / INNER / "i").read_text() == "i\n"
    await worktree.remove(repo, landing.cwd)
    outer = repo.git.at(repo.root / OUTER)
    assert len(await list_refs(outer, KEEP_PREFIX)) == 1
    await outer("reflog", "expire", "--expire=now", "--all")
    await outer("gc", "--prune=now", "--quiet")
    await outer("cat-file", "-e", next(iter((await list_refs(outer, KEEP_PREFIX)).values())))


@pytest.mark.parametrize("setting", ["diff.ignoreSubmodules", f"submodule.{OUTER}.ignore"])
async def test_a_changed_pointer_is_seen_whatever_gitmodules_ignores(repo, head, pool, sh, people, setting):
    """SC-7: a candidate's own .gitmodules must not hide its changes."""
    slot = await pool.take("a1", head)
    await sh(f"echo new > '{OUTER}/new'; git config --file .gitmodules '{setting}' all", cwd=slot.git.cwd)
    work = await commit_all(slot.git, "work", **people)
    await sh(f"git config '{setting}' all", cwd=repo.root)
    assert await changed_paths(slot.git, head, work) == (".gitmodules", OUTER)
    assert "Subproject commit" in await diff_text(slot.git, head, work, limit_bytes=10_000)


async def test_an_agent_s_commit_in_a_submodule_is_kept(repo, head, pool, sh, people):
    slot = await pool.take("a1", head)
    await sh("echo x > o; git commit -qam theirs", cwd=slot.git.cwd / OUTER)
    assert await commit_all(slot.git, "work", **people)
    assert len(await list_refs(repo.git.at(repo.root / OUTER), KEEP_PREFIX)) == 1
    assert await commit_all(slot.git, "nothing more", **people) is None


async def moved_pointers(git, old, new):
    changes = [change for change in await path_changes(git, old, new) if change.is_gitlink]
    return [change.path for change in changes], await missing_gitlinks(
        git, new, [each.as_gitlink() for each in changes]
    )


@pytest.mark.slow
async def test_a_pointer_to_a_commit_that_is_nowhere_is_told_from_work_in_a_submodule(repo, head, pool, sh, people):
    """BX-5: what lands must exist."""
    slot = await pool.take("a1", head)
    await sh(f"echo new > '{INNER}/new'", cwd=slot.git.cwd)
    work = await commit_all(slot.git, "work", **people)
    assert await moved_pointers(repo.git, head, work) == ([OUTER], ())
    await sh(f"git update-index --cacheinfo 160000,{'1' * 40},'{OUTER}'", cwd=slot.git.cwd)
    tree = (await slot.git("write-tree")).line
    fake = await commit_tree(slot.git, tree, parents=[head], message="fake", **people)
    assert await moved_pointers(repo.git, head, fake) == ([OUTER], (Gitlink(OUTER, "1" * 40),))


async def test_changes_inside_submodules_are_listed_with_their_whole_paths(repo, head, pool, sh, people):
    """RA-14: a protected file is one in a submodule, too."""
    slot = await pool.take("a1", head)
    await sh(f"echo x > '{INNER}/.npmrc'; rm '{OUTER}/o'", cwd=slot.git.cwd)
    work = await commit_all(slot.git, "work", **people)
    inside = await submodule_changes(repo.git, head, work)
    assert {(each.path, each.kind) for each in inside} == {(f"{OUTER}/o", "D"), (INNER, "M"), (f"{INNER}/.npmrc", "A")}
    assert await submodule_changes(repo.git, head, head) == ()


async def test_a_pointer_to_nowhere_inside_a_submodule_is_refused(repo, head, pool, sh, people):
    """BX-5: nothing that is landed names it, so it is found when the submodule is committed."""
    slot = await pool.take("a1", head)
    await sh(
        f"git update-index --cacheinfo 160000,{'1' * 40},'in ner'; git commit -qm x; rm -r 'in ner'; mkdir 'in ner'",
        cwd=slot.git.cwd / OUTER,
    )
    with pytest.raises(GitError, match=r"in ner .*1111"):
        await commit_all(slot.git, "work", **people)


async def test_changes_that_checks_make_in_a_submodule_are_undone(repo, head, pool, sh):
    slot = await pool.take("a1", head)
    await sh("echo x > o; echo u > u; echo l > x.log; rm 'in ner/i'", cwd=slot.git.cwd / OUTER)
    await worktree.restore(slot.git, head)
    assert sorted(path.name for path in (slot.git.cwd / OUTER).iterdir()) == [
        *(".git", ".gitignore", ".gitmodules", "in ner", "o", "x.log")
    ]
    assert not (await slot.git("status", "--porcelain")).out


@pytest.mark.slow
async def test_changes_of_a_submodule_on_both_sides_are_a_conflict(repo, head, pool, sh, people):
    sides = []
    for name in ("x", "y"):
        slot = await pool.take(name, head)
        await sh(f"echo {name} > '{OUTER}/o'", cwd=slot.git.cwd)
        sides.append(await commit_all(slot.git, name, **people))
        await pool.give_back(name)
    assert isinstance(await merge_commits(repo.git, *sides), Conflicted)
    assert isinstance(await merge_commits(repo.git, head, sides[0]), Merged)


async def test_a_submodule_that_is_not_available_is_named_and_its_folder_stays_empty(repo, head, pool, sh, people):
    await sh("rm -rf '.git/modules/lib/ouß/modules/in ner'")
    slot = await pool.take("a1", head)
    (missing,) = slot.missing
    assert missing.path == INNER
    assert "update --init" in missing.why
    assert not list((slot.git.cwd / INNER).iterdir())
    (slot.git.cwd / "a").write_text("work")
    work = await commit_all(slot.git, "work", **people)
    assert await changed_paths(repo.git, head, work) == ("a",)


async def test_a_submodule_whose_commit_is_not_available_is_named(repo, head, pool, sh):
    await sh(
        f"git update-index --cacheinfo 160000,{'1' * 40},'{OUTER}';"
        "git commit -qm 'not there'; git reset -q --soft HEAD~1"
    )
    later = (await repo.git("rev-parse", "ORIG_HEAD")).line
    slot = await pool.take("a1", later)
    (missing,) = slot.missing
    assert (missing.path, "1" * 12 in missing.why) == (OUTER, True)


@pytest.mark.parametrize("name", ["../../evil", "/evil", "x/../../../y"])
async def test_a_submodule_name_that_leads_elsewhere_is_not_checked_out(repo, pool, sh, name):
    await sh(
        f"git config -f .gitmodules submodule.'{name}'.path '{OUTER}'; git config -f .gitmodules --remove-section "
        f"submodule.'{OUTER}'; git commit -qam evil"
    )
    slot = await pool.take("a1", (await checkout_status(repo)).head)
    assert [each.path for each in slot.missing] == [OUTER]


@pytest.mark.slow
async def test_a_run_may_start_inside_a_submodule(repo, environ, sh, tmp_path, people):
    inside = await open_repository(repo.root / OUTER, environ=environ)
    assert inside.root == repo.root / OUTER
    head = (await checkout_status(inside)).head
    git = await worktree.add(inside, tmp_path / "w", head)
    (git.cwd / "o").write_text("x")
    assert await commit_all(git, "work", **people)
    await worktree.remove(inside, tmp_path / "w")
    assert (await checkout_status(inside)).head == head


async def test_no_configured_program_of_a_submodule_ever_runs(repo, head, pool, sh, tmp_path, people):
    """BX-9: git enters submodules automatically."""
    ran = tmp_path / "ran"
    await sh(
        f"git config filter.mark.clean 'touch {ran}; cat'; git config core.fsmonitor 'touch {ran}';"
        f"echo '* filter=mark' > '../../.git/modules/{OUTER}/info/attributes'; touch o",
        cwd=repo.root / OUTER,
    )
    ran.unlink(missing_ok=True)
    await checkout_status(repo)
    slot = await pool.take("a1", head)
    (slot.git.cwd / OUTER / "o").write_text("changed")
    assert await commit_all(slot.git, "work", **people)
    (slot.git.cwd / OUTER / "o").touch()
    await slot.git("status")
    await pool.give_back("a1")
    assert not ran.exists()
    await sh("touch o; git status", cwd=repo.root / OUTER)
    assert ran.exists(), "it would run without us"


async def test_a_pointer_from_a_submodule_to_the_user_s_checkout_is_ignored(repo, head, pool, people):
    """BX-9"""
    slot, users = await pool.take("a1", head), repo.git.at(repo.root / OUTER)
    before = await resolve(users, "HEAD")
    (slot.git.cwd / OUTER / ".git").write_text(f"gitdir: {repo.common_dir / 'modules' / OUTER}\n")
    (slot.git.cwd / OUTER / "o").write_text("changed\n")
    assert await commit_all(slot.git, "work", **people)
    assert await resolve(users, "HEAD") == before
    assert not (await users("status", "--porcelain")).out
