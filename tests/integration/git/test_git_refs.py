"""Refs."""

import pytest

from scaffold.core.errors import GitError
from scaffold.git import refs
from scaffold.git.commits import commit_tree, tree_of

REF = "refs/heads/session-1"


@pytest.fixture
async def second(repo, head, people):
    """A commit beside the first."""
    return await commit_tree(repo.git, await tree_of(repo.git, head), parents=(head,), message="second", **people)


async def test_an_unknown_name_resolves_to_none(repo):
    names = ["nowhere", "a..b", "-x", "", "refs/heads/..", "HEAD~5", "HEAD:a"]
    assert {name: await refs.resolve(repo.git, name) for name in names} == dict.fromkeys(names)


async def test_names_resolve_to_commits_through_tags_and_short_ids(repo, sh, head):
    await sh("git tag -am t annotated")
    assert [await refs.resolve(repo.git, name) for name in ("main", "annotated", head[:8])] == [head] * 3


async def test_a_ref_moves_only_from_its_expected_value(repo, head, second):
    """BX-8"""
    assert await refs.move(repo.git, REF, new=head, old=None)
    for _ in range(2):  # a move is idempotent
        assert await refs.move(repo.git, REF, new=second, old=head)
    assert not await refs.move(repo.git, REF, new=head, old=None)
    third = await commit_tree_like(repo, second)
    assert not await refs.move(repo.git, REF, new=third, old=head)
    assert await refs.resolve(repo.git, REF) == second


async def commit_tree_like(repo, commit):
    answer = await repo.git("commit-tree", "-p", commit, "-m", "third", f"{commit}^{{tree}}")
    return answer.line


async def test_a_ref_that_cannot_be_created_is_an_error_and_not_a_lost_race(repo, head):
    await refs.pin(repo.git, "refs/heads/taken", head)
    with pytest.raises(GitError, match="taken"):
        await refs.move(repo.git, "refs/heads/taken/below", new=head, old=None)


async def test_a_ref_is_deleted_only_from_its_expected_value(repo, head, second):
    await refs.pin(repo.git, REF, second)
    assert not await refs.delete(repo.git, REF, old=head)
    assert await refs.delete(repo.git, REF, old=second)
    assert await refs.delete(repo.git, REF, old=second)
    assert await refs.resolve(repo.git, REF) is None


async def test_pins_are_listed_by_folder(repo, head, second):
    """BX-3"""
    await refs.pin(repo.git, refs.work_ref("a1"), head)
    await refs.pin(repo.git, refs.rescue_ref("a1"), head)
    await refs.pin(repo.git, refs.rescue_ref("a1"), second)
    assert await refs.list_refs(repo.git, "refs/scaffold/rescue/") == {"refs/scaffold/rescue/a1": second}
    assert len(await refs.list_refs(repo.git, refs.REF_PREFIX)) == 2
    assert await refs.list_refs(repo.git, "refs/nothing/") == {}


async def test_pinned_work_survives_the_user_s_garbage_collection(repo, sh, second):
    """BX-3"""
    await refs.pin(repo.git, refs.rescue_ref("a1"), second)
    await sh("git gc -q --prune=now")
    assert await refs.resolve(repo.git, second) == second
