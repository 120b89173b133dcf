import os

import pytest

from scaffold.git.checkouts.worktree_metadata import current_branch


@pytest.fixture
async def repo(sh, origin):
    """A repository on the branch `topic/clock`, with one commit."""
    await sh("git init -q -b topic/clock; git commit -q --allow-empty -m start")
    return origin


def test_the_branch_is_known_from_every_folder_of_a_repository(repo):
    """RA-3."""
    inside = repo / "a" / "b"
    inside.mkdir(parents=True)
    assert current_branch(repo) == current_branch(inside) == "topic/clock"


async def test_a_worktree_has_its_own_branch(repo, sh, tmp_path):
    await sh(f"git worktree add -q -b other '{tmp_path}/tree'")
    assert (current_branch(tmp_path / "tree"), current_branch(repo)) == ("other", "topic/clock")


async def test_a_detached_head_is_on_no_branch(repo, sh):
    await sh("git checkout -q --detach")
    assert current_branch(repo) is None


def test_without_a_repository_there_is_no_branch(tmp_path):
    assert current_branch(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert current_branch(tmp_path) is None


def test_an_invalid_branch_name_is_not_returned(repo):
    """Text that another program wrote there would reach a model."""
    for head in ("ref: refs/heads/.invalid", "ref: refs/heads/a b", "ref: refs/heads/a\x1b[2J", "", "x" * 10_000):
        (repo / ".git" / "HEAD").write_text(head)
        assert (head, current_branch(repo)) == (head, None)


def test_a_special_file_is_not_waited_for(repo):
    (repo / ".git" / "HEAD").unlink()
    os.mkfifo(repo / ".git" / "HEAD")
    assert current_branch(repo) is None
