"""Repositories that an agent plants where our git works: none is entered, and nothing that it configures ever runs."""

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.commits import changed_paths, diff_text
from scaffold.git.refs import resolve
from scaffold.git.repository import checkout_status, open_repository
from scaffold.worker.agent.watchdog import worktree_fingerprint

ADD = "git -c protocol.file.allow=always submodule --quiet add"
PLANT = """
git init -q . && git config user.name x && git config user.email x@example.org
for key in filter.mark.clean filter.mark.smudge filter.mark.process core.fsmonitor diff.mark.textconv; do
  git config $key '{canary}'
done
mkdir -p .git/hooks && cp '{canary}' .git/hooks/post-checkout && cp '{canary}' .git/hooks/post-index-change
echo '* filter=mark diff=mark' > .git/info/attributes
"""
"""Make the folder a repository whose configuration names the canary wherever git would start a program."""
COMMIT = "git -c core.fsmonitor=false commit -q --no-verify --allow-empty -m planted"


@pytest.fixture
async def repo(make):
    """A repository with the submodule `lib`, and with the gitlink `bare` that .gitmodules does not name."""
    return await make(
        "here=$PWD; mkdir ../inner; cd ../inner; git init -q; seq 3 > o; git add .; git commit -qm inner; cd $here;"
        f"git init -q; echo a > a; {ADD} $here/../inner lib; git add .;"
        "git update-index --add --cacheinfo 160000,$(git -C lib rev-parse HEAD),bare; git commit -qm all; mkdir bare;"
        "rm -rf ../inner"
    )


@pytest.fixture
def ran(tmp_path):
    """The file that the canary writes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def plant(tmp_path, ran, sh):
    """Make a folder a repository of the agent's, with a commit; forget the runs of the canary that this caused."""
    canary = tmp_path / "canary"
    canary.write_text(f"#!/bin/sh\necho $0 >> '{ran}'\ncat\n")
    canary.chmod(0o755)

    async def make(folder, then=COMMIT):
        folder.mkdir(exist_ok=True)
        await sh(f"{PLANT.format(canary=canary)}\n{then}", cwd=folder)
        ran.unlink(missing_ok=True)

    return make


@pytest.fixture
def pool(repo, tmp_path):
    return WorktreePool(repo, tmp_path / "cache" / "attempts")


async def everything(repo, git, head, people):
    """Run each git operation that we use in a worktree; a refused commit is one of them."""
    await worktree_fingerprint(git)
    try:
        work = await commit_all(git, "work", **people)
    except GitError:
        work = None
    await worktree.restore(git, head)
    await worktree.reset_and_clean(git, head)
    await diff_text(repo.git, head, work or head, limit_bytes=10_000)
    return work


@pytest.mark.slow
async def test_a_repository_planted_in_a_submodule_is_never_entered(repo, head, pool, sh, plant, ran, people):
    """BX-9: its filter ran as the user when we added the worktree's files."""
    slot = await pool.take("a1", head)
    await sh("rm .git", cwd=slot.git.cwd / "lib")
    await plant(slot.git.cwd / "lib")
    await sh("echo changed > o; touch a", cwd=slot.git.cwd / "lib")
    work = await everything(repo, slot.git, head, people)
    assert not ran.exists(), ran.read_text()
    assert await changed_paths(repo.git, head, work) == ("lib",)
    pointer = (await repo.git("rev-parse", f"{work}:lib")).line
    assert (await repo.git.at(repo.root / "lib")("cat-file", "blob", f"{pointer}:o")).out == b"changed\n"
    await pool.give_back("a1")
    assert not ran.exists()


@pytest.mark.slow
async def test_a_submodule_planted_without_gitmodules_is_never_entered(repo, head, pool, sh, plant, ran, people):
    """BX-9: without .gitmodules the submodule is still in the index."""
    slot = await pool.take("a1", head)
    await sh("rm .gitmodules lib/.git", cwd=slot.git.cwd)
    await plant(slot.git.cwd / "lib")
    await sh("echo changed > lib/o", cwd=slot.git.cwd)
    await everything(repo, slot.git, head, people)
    assert not ran.exists(), ran.read_text()


@pytest.mark.slow
async def test_a_repository_planted_in_a_gitlink_s_folder_is_refused(repo, head, pool, sh, plant, ran, people):
    """BX-9, AL-12: it is named, never entered, and it is gone for the next attempt."""
    slot = await pool.take("a1", head)
    await plant(slot.git.cwd / "bare", "seq 3 > o; git -c core.fsmonitor=false add o; " + COMMIT + "; touch o")
    await worktree_fingerprint(slot.git)
    with pytest.raises(GitError, match="bare") as caught:
        await commit_all(slot.git, "work", **people)
    assert "remove bare" in caught.value.fix
    await everything(repo, slot.git, head, people)
    await pool.give_back("a1")
    again = await pool.take("a2", head)
    assert not ran.exists(), ran.read_text()
    assert not list((again.git.cwd / "bare").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("pointer", ["file", "folder", "link", "registration"])
async def test_a_worktree_that_leads_to_another_repository_does_not_follow(
    repo, head, pool, sh, plant, ran, people, tmp_path, pointer
):
    """BX-9: the registration made with the worktree counts, not what `.git` says later."""
    slot = await pool.take("a1", head)
    top, own = slot.git.cwd, slot.git.cwd / "own"
    await plant(own)
    match pointer:
        case "file":
            await sh("echo gitdir: own/.git > .git", cwd=top)
        case "folder":
            await sh("rm .git; mv own/.git .git", cwd=top)
        case "link":
            await sh("rm .git; ln -s own/.git .git", cwd=top)
        case "registration":  # it points back, as a true one does
            await sh(
                "mkdir own/.git/worktrees own/.git/worktrees/w; cp own/.git/HEAD own/.git/worktrees/w;"
                f"echo ../.. > own/.git/worktrees/w/commondir; echo '{top}/.git' > own/.git/worktrees/w/gitdir;"
                "echo gitdir: own/.git/worktrees/w > .git",
                cwd=top,
            )
    await sh("echo changed > a; mv own/.git own/git 2>/dev/null || true", cwd=top)
    await worktree_fingerprint(slot.git)
    work = await commit_all(slot.git, "work", **people)
    assert await resolve(repo.git, work) == work
    assert "a" in await changed_paths(repo.git, head, work)
    await worktree.reset_and_clean(slot.git, head)
    assert not ran.exists(), ran.read_text()
    assert await sh("git rev-parse HEAD", cwd=top) == f"{head}\n", "later commands find our repository again"
    assert (top / ".git").is_file()


async def test_a_pointer_to_another_worktree_of_ours_changes_nothing_there(repo, head, pool, sh, people):
    """BX-9"""
    slot, other = await pool.take("a1", head), await pool.take("a2", head)
    (slot.git.cwd / ".git").write_bytes((other.git.cwd / ".git").read_bytes())
    (slot.git.cwd / "a").write_text("changed\n")
    work = await commit_all(slot.git, "work", **people)
    assert (await resolve(slot.git, "HEAD"), await resolve(other.git, "HEAD")) == (work, head)
    await pool.give_back("a1")
    assert (await other.git("status", "--porcelain")).out == b""


@pytest.mark.parametrize("where", ["lib", "bare"])
async def test_reading_the_user_s_checkout_enters_no_repository_in_it(repo, head, sh, plant, ran, environ, where):
    """BX-9: `doctor` and `run` read it with a command that enters submodules by itself."""
    await sh(f"rm -rf {where}/.git")
    for setting in ("status.submoduleSummary true", "diff.submodule diff", f"submodule.{where}.ignore none"):
        await sh(f"git config {setting}")
    await plant(repo.root / where, f"git -c core.fsmonitor=false add .; {COMMIT}; touch o")
    assert (await checkout_status(await open_repository(repo.root, environ=environ))).dirty
    await sh(f"git update-index --cacheinfo 160000,$(git -C {where} rev-parse HEAD),{where}; git commit -qm moved")
    await diff_text(repo.git, head, await resolve(repo.git, "HEAD"), limit_bytes=10_000)
    assert not ran.exists(), ran.read_text()
    await sh("touch o; git status", cwd=repo.root / where)
    assert ran.exists(), "it would run without us"
