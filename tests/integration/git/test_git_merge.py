"""Merges in memory."""

import pytest

from scaffold.core.errors import GitError
from scaffold.git.refs import resolve
from scaffold.git.trees.merge import Conflicted, Merged, merge_commits


@pytest.fixture
def sides(sh, repo):
    """Commit the results of two scripts on two branches; return both commits."""

    async def make(ours, theirs):
        for name, script in (("ours", ours), ("theirs", theirs)):
            await sh(
                f"git checkout -q -b {name} main; {script}; git add -A; git commit -qm {name}; git checkout -q main"
            )
        return await resolve(repo.git, "ours"), await resolve(repo.git, "theirs")

    return make


async def test_a_clean_merge_returns_a_tree(repo, sides, sh):
    ours, theirs = await sides("echo o > o", "echo 4 >> a")
    merged = await merge_commits(repo.git, ours, theirs)
    assert isinstance(merged, Merged)
    assert (await sh(f"git ls-tree --name-only {merged.tree}")).split() == [".gitignore", "a", "b", "o", "run"]
    assert await sh(f"git show {merged.tree}:a") == "1\n2\n3\n4\n"


async def test_a_merge_does_not_touch_the_checkout(repo, sides, sh):
    ours, theirs = await sides("echo o > o", "echo 4 >> a")
    await merge_commits(repo.git, ours, theirs)
    assert await sh("git status --porcelain; git rev-parse --abbrev-ref HEAD") == "main\n"


async def test_conflicting_paths_are_named_in_order(repo, sides):
    script = "for f in a 'sp ace' \"$(printf 'caf\\351')\"; do echo {0} > \"$f\"; done; echo {0} > {0}"
    ours, theirs = await sides(script.format("ours"), script.format("theirs"))
    conflict = await merge_commits(repo.git, ours, theirs)
    assert isinstance(conflict, Conflicted)
    assert conflict.paths == ("a", "caf\udce9", "sp ace")


async def test_a_file_changed_on_one_side_and_deleted_on_the_other_is_a_conflict(repo, sides):
    ours, theirs = await sides("git rm -q a", "echo 4 >> a")
    conflict = await merge_commits(repo.git, ours, theirs)
    assert isinstance(conflict, Conflicted)
    assert conflict.paths == ("a",)


async def test_a_conflict_without_a_version_in_the_index_is_one_nevertheless(repo, sides, sh):
    """AL-13: the other side adds a file to a folder whose files went to two others."""
    await sh("mkdir old; for i in 1 2 3 4; do seq $i 30 > old/$i; done; git add -A; git commit -qm old")
    move = "mkdir one two; git mv old/1 old/2 one; git mv old/3 old/4 two"
    conflict = await merge_commits(repo.git, *await sides(move, "echo x > old/x"))
    assert isinstance(conflict, Conflicted)
    assert conflict.paths == ("old",)
    assert not conflict.files[0].only_contents


async def test_each_version_of_a_path_in_conflict_is_named(repo, sides):
    """AL-13."""
    conflict = await merge_commits(repo.git, *await sides("echo o > a", "echo t > a; chmod +x a"))
    assert isinstance(conflict, Conflicted)
    (file,) = conflict.files
    assert {*file.stages} == {"base", "ours", "theirs"}
    assert file.only_contents


async def test_unrelated_histories_are_an_error(repo, sides, sh):
    ours, _ = await sides("echo o > o", "echo t > t")
    await sh("git checkout -q --orphan alone; git commit -qm alone")
    with pytest.raises(GitError, match="unrelated histories"):
        await merge_commits(repo.git, ours, await resolve(repo.git, "alone"))
