"""Commits."""

import os

import pytest

from builders import commit_all
from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.added_lines import changed_line_count
from scaffold.git.checkouts import worktree
from scaffold.git.commits import (
    batch_contents,
    blob_sizes,
    changed_paths,
    commit_all_info,
    commit_tree,
    contained,
    diff_text,
    is_ancestor,
    listed_files,
    listed_paths,
    read_commit,
    tree_of,
)
from scaffold.git.refs import resolve

RAW = os.fsdecode(b"caf\xe9 \xff\n.txt")


@pytest.fixture
async def place(repo, head, tmp_path):
    """Git in a worktree at the first commit."""
    return await worktree.add(repo, tmp_path / "work tree é", head)


async def test_everything_that_is_not_ignored_is_committed(place, sh, head, people):
    (place.cwd / RAW).write_text("raw")
    await sh(
        "rm b/c; chmod -x run; ln -s a link; mkdir new; echo x > new/ü; echo n > x.log; echo 4 >> a", cwd=place.cwd
    )
    commit = await commit_all(place, "all of it", **people)
    assert set(await changed_paths(place, head, commit)) == {"a", "b/c", "run", "link", "new/ü", RAW}
    modes = (await sh(f"git ls-tree {commit} run link", cwd=place.cwd)).split()
    assert (modes[0], modes[4]) == ("120000", "100644")
    assert not (await place("status", "--porcelain")).out


async def test_a_commit_has_the_given_author_committer_and_message(place, sh, people):
    await sh("echo 4 >> a", cwd=place.cwd)
    commit = await commit_all(place, "Größer\n\nBody\n\nScaffold-Action: a1", **people)
    said = await sh(f"git log -1 --format='%an|%ae|%cn|%ce|%B' {commit}")
    assert said.strip() == (
        "Zoë Author|zoe@example.org|Carl Committer|carl@example.org|Größer\n\nBody\n\nScaffold-Action: a1"
    )


async def test_which_of_many_commits_a_branch_has_is_asked_at_once(place, sh, head, people):
    await sh("echo 4 >> a", cwd=place.cwd)
    later = await commit_all(place, "later", **people)
    gone = Commit("1" * len(head))
    assert await contained(place, {head, later, gone}, later) == {head, later}
    assert await contained(place, {head, later, gone}, head) == {head}
    assert await contained(place, {gone}, later) == frozenset()


async def test_without_a_difference_there_is_no_commit(place, sh, head, people):
    await sh("touch a; echo n > x.log", cwd=place.cwd)
    assert await commit_all(place, "nothing", **people) is None
    assert await resolve(place, "HEAD") == head


async def test_head_is_returned_with_or_without_a_change(place, sh, head, people):
    same = await commit_all_info(place, "nothing", **people)
    assert same == await read_commit(place, "HEAD") == await read_commit(place, head)
    await sh("echo 4 >> a", cwd=place.cwd)
    other = await commit_all_info(place, "all of it", **people)
    assert other == await read_commit(place, "HEAD")
    assert other.parents == (head,)


async def test_files_are_listed_with_blob_and_size(place, sh, people):
    await sh("ln -s a link; printf 12345 > \"$(printf 'odd\nname')\"", cwd=place.cwd)
    commit = await commit_all(place, "all of it", **people)
    files = await listed_files(place, commit)
    assert set(files) == {*await listed_paths(place, commit)} - {"link"}
    assert await blob_sizes(place, (files["odd\nname"], files["b/c"], "0" * 40)) == (5, 2, None)
    assert await blob_sizes(place, ()) == ()


async def test_commits_of_an_agent_are_kept_below_ours(place, sh, head, people):
    await sh("echo 4 >> a; git commit -qam theirs; echo 5 >> a", cwd=place.cwd)
    theirs = await resolve(place, "HEAD")
    ours = await commit_all(place, "ours", **people)
    assert await resolve(place, f"{ours}~1") == theirs
    assert await is_ancestor(place, head, ours)
    assert not await is_ancestor(place, ours, head)


async def test_a_branch_checked_out_by_an_agent_does_not_move(place, sh, head, people):
    await sh("git branch precious; git checkout -q precious; echo 4 >> a", cwd=place.cwd)
    commit = await commit_all(place, "ours", **people)
    assert await resolve(place, "precious") == head
    assert await resolve(place, "HEAD") == commit


async def test_an_unfinished_merge_of_an_agent_is_committed_as_it_is(place, sh, people):
    await sh(
        "git checkout -q --detach; echo x > a; git commit -qam x; git branch side; git checkout -q --detach HEAD~1;"
        "echo y > a; git commit -qam y; git merge side || true",
        cwd=place.cwd,
    )
    commit = await commit_all(place, "as it lies", **people)
    assert "<<<<<<<" in await sh(f"git show {commit}:a")


@pytest.mark.parametrize("with_commit", [True, False])
async def test_a_nested_repository_is_refused_by_name(place, sh, head, people, with_commit):
    await sh("mkdir -p deep/inner; cd deep/inner; git init -q; echo x > x", cwd=place.cwd)
    if with_commit:
        await sh("cd deep/inner; git add x; git commit -qm inner", cwd=place.cwd)
    with pytest.raises(GitError, match="deep/inner") as caught:
        await commit_all(place, "inner", **people)
    assert "deep/inner/.git" in caught.value.fix
    assert await resolve(place, "HEAD") == head


async def test_an_ignored_nested_repository_does_not_matter(place, sh, people):
    await sh("mkdir inner.log; cd inner.log; git init -q; cd ..; echo 4 >> a", cwd=place.cwd)
    assert await commit_all(place, "fine", **people)


async def test_signing_and_other_encodings_are_not_used(place, sh, people):
    await sh("git config commit.gpgSign true; git config i18n.commitEncoding ISO-8859-1; echo ü >> a", cwd=place.cwd)
    commit = await commit_all(place, "Grün", **people)
    raw = await place("cat-file", "commit", commit)
    assert "Grün".encode() in raw.out
    assert b"encoding" not in raw.out


async def test_a_tree_becomes_a_commit_with_several_parents(repo, head, people):
    tree = await tree_of(repo.git, head)
    one = await commit_tree(repo.git, tree, parents=(head,), message="one", **people)
    two = await commit_tree(repo.git, tree, parents=(head, one), message="two", **people)
    assert [await resolve(repo.git, f"{two}^{n}") for n in (1, 2)] == [head, one]
    assert await tree_of(repo.git, two) == tree


async def test_a_rename_changes_both_paths(place, sh, head, people):
    await sh("git mv b/c 'b/new name'", cwd=place.cwd)
    assert await changed_paths(place, head, await commit_all(place, "move", **people)) == ("b/c", "b/new name")


async def test_a_patch_is_bounded_and_independent_of_the_users_configuration(place, sh, head, people):
    await sh("git config color.ui always; git config diff.own.command false; echo 'a diff=own' > .git/info/attributes")
    await sh("seq 1000 > a", cwd=place.cwd)
    commit = await commit_all(place, "count", **people)
    whole = await diff_text(place, head, commit, limit_bytes=100_000)
    assert whole.startswith("diff --git a/a b/a\n")
    assert "+1000\n" in whole
    short = await diff_text(place, head, commit, limit_bytes=200)
    assert "bytes omitted" in short
    assert len(short) < 300


async def test_a_patch_shows_lines_that_attributes_of_the_repository_would_hide(place, sh, head, people):
    """BX-5: a reviewer would read that binary files differ."""
    await sh("echo '* binary' > .gitattributes; echo more >> a; printf 'x\\0' > image", cwd=place.cwd)
    commit = await commit_all(place, "hide", **people)
    patch = await diff_text(place, head, commit, limit_bytes=100_000)
    assert "+more\n" in patch
    assert "b/image differ" in patch
    assert await changed_line_count(place, head, commit) == 2


async def test_many_files_are_read_by_one_process(place, people):
    """Each by commit and path: odd names, missing and empty ones, and contents that look like an answer."""
    held = {"a b": b"a b missing\n", "empty": b"", RAW: b"x\ny"}
    for name, content in held.items():
        (place.cwd / name).write_bytes(content)
    commit = await commit_all(place, "more", **people)
    names = [f"{commit}:{path}" for path in ("gone", *held, "gone too")]
    assert await batch_contents(place, names) == (None, *held.values(), None)
    assert await batch_contents(place, ()) == ()
