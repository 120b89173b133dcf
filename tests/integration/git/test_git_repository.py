"""Which repositories can be worked on."""

import os

import pytest

from scaffold.core.errors import RepositoryError
from scaffold.core.run_settings import Signature
from scaffold.git.repository import checkout_status, open_repository, signatures

CONFLICT = (
    "git checkout -qb side; echo side > a; git commit -qam side; git checkout -q main; echo main > a;"
    "git commit -qam main"
)


async def test_a_repository_is_found_from_a_subfolder(repo, origin, environ):
    found = await open_repository(origin / "b", environ=environ)
    assert (found.root, found.common_dir) == (origin, origin / ".git")


async def test_a_linked_worktree_is_a_separate_checkout_with_the_same_git_directory(
    repo, origin, sh, environ, tmp_path
):
    linked = tmp_path / "linked"
    await sh(f"git worktree add -q -b feature '{linked}'")
    found = await open_repository(linked, environ=environ)
    assert (found.root, found.common_dir) == (linked, origin / ".git")
    assert (await checkout_status(found)).branch == "feature"


async def test_a_path_may_contain_a_newline(repo, origin, environ, tmp_path):
    odd = tmp_path / "two\nlines"
    origin.rename(odd)
    found = await open_repository(odd, environ=environ)
    assert (found.root, found.common_dir) == (odd, odd / ".git")


@pytest.mark.parametrize(
    ("script", "what", "fix"),
    [
        ("true", "not in a git repository", "git init"),
        ("git init -q --bare", "a bare repository", "clone it"),
        ("git init -q; mv .git/* .; rmdir .git; git config core.bare false", "inside a git directory", "checkout"),
        ("git init -q; echo broken > .git/HEAD", "not in a git repository", "git init"),
    ],
)
async def test_a_folder_that_is_no_checkout_is_refused_with_the_reason(origin, sh, environ, script, what, fix):
    await sh(script)
    with pytest.raises(RepositoryError) as caught:
        await open_repository(origin, environ=environ)
    assert what in caught.value.what
    assert fix in caught.value.fix


async def test_a_directory_that_does_not_exist_is_refused(tmp_path, environ):
    with pytest.raises(RepositoryError, match="is not a directory"):
        await open_repository(tmp_path / "nowhere", environ=environ)


async def test_a_path_that_is_not_utf_8_is_refused(repo, origin, environ, tmp_path):
    odd = tmp_path / os.fsdecode(b"odd\xff")
    origin.rename(odd)
    with pytest.raises(RepositoryError, match="odd\ufffd") as caught:
        await open_repository(odd, environ=environ)
    assert "rename" in caught.value.fix


async def test_a_missing_git_is_reported_with_a_fix(origin, environ):
    with pytest.raises(RepositoryError, match="not installed"):
        await open_repository(origin, environ=environ | {"PATH": "/nowhere"})


async def test_a_git_that_is_too_old_is_refused(origin, environ, tmp_path):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho git version 2.37.9\n")
    program.chmod(0o755)
    with pytest.raises(RepositoryError, match=r"2\.37\.9"):
        await open_repository(origin, environ=environ | {"PATH": f"{tmp_path}:{environ['PATH']}"})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
async def test_a_repository_of_another_user_is_refused_with_the_fix(repo, sh, environ, origin):
    await sh("chown -R 12345 .")
    with pytest.raises(RepositoryError) as caught:
        await open_repository(origin, environ=environ)
    assert f"safe.directory {origin}" in caught.value.fix


async def test_a_survey_returns_head_branch_and_changes(repo, sh, head):
    clean = await checkout_status(repo)
    assert (clean.head, clean.branch, clean.dirty) == ((await sh("git rev-parse HEAD")).strip(), "main", False)
    await sh("echo noise > x.log")
    assert not (await checkout_status(repo)).dirty
    await sh("echo new > new")
    assert (await checkout_status(repo)).dirty


async def test_a_detached_head_is_fine(repo, sh, head):
    await sh("git checkout -q --detach")
    found = await checkout_status(repo)
    assert (found.head, found.branch) == (head, None)


async def test_a_branch_is_named_in_full_even_if_a_tag_has_its_name(repo, sh):
    await sh("git tag feature; git checkout -q -b feature")
    assert (await checkout_status(repo)).branch == "feature"


async def test_a_repository_without_a_commit_is_refused(origin, sh, environ):
    await sh("git init -q")
    with pytest.raises(RepositoryError, match="has no commits"):
        await checkout_status(await open_repository(origin, environ=environ))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "work", "give_up"),
    [
        ("git merge side", "a merge", "git merge --abort"),
        ("git rebase side", "a rebase", "git rebase --abort"),
        ("git rebase --apply side", "a rebase", "git rebase --abort"),
        ("git cherry-pick side", "a cherry-pick", "git cherry-pick --abort"),
        ("git revert --no-edit HEAD~1; git revert HEAD --no-commit", "a revert", "git revert --abort"),
        ("git bisect start", "a bisect", "git bisect reset"),
        ("git format-patch -q --stdout side~1..side > p; git am p", "git am", "git am --abort"),
    ],
)
async def test_unfinished_work_is_refused_and_named(repo, sh, script, work, give_up):
    await sh(CONFLICT)
    await sh(script, ok=False)
    with pytest.raises(RepositoryError) as caught:
        await checkout_status(repo)
    assert work in caught.value.what
    assert give_up in caught.value.fix


async def test_a_survey_does_not_write_the_index(repo, sh, origin):
    """`git status` would refresh it otherwise."""
    await sh("echo changed >> a; touch -d '2001-01-01' b/c")
    index = origin / ".git" / "index"
    before = index.stat().st_mtime_ns, index.read_bytes()
    assert (await checkout_status(repo)).dirty
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before


async def test_the_user_s_settings_determine_author_and_committer(repo):
    ann = Signature("Ann Example", "ann@example.org")
    assert await signatures(repo) == (ann, ann)


async def test_environment_variables_override_them(repo, origin, environ):
    overridden = environ | {"GIT_AUTHOR_NAME": "A <B>", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_EMAIL": "c@d"}
    author, committer = await signatures(await open_repository(origin, environ=overridden))
    assert author.email == "a@b"
    assert committer == Signature("Ann Example", "c@d")


async def test_an_unknown_user_is_told_how_to_configure_git(repo, tmp_path):
    (tmp_path / "home" / "gitconfig").write_text("")
    with pytest.raises(RepositoryError) as caught:
        await signatures(repo)
    assert "git config --global user.name" in caught.value.fix
    assert "user.email" in caught.value.fix
