"""A repository's own settings: whose they are, and that what was read once is read again when it changed."""

import os

import pytest

from builders import make_repository
from scaffold.core.errors import GitError
from scaffold.git.command import Git
from scaffold.git.repository_config import RepositoryConfig


@pytest.fixture
def shop(tmp_path):
    return make_repository(tmp_path / "shop")


async def settings(root):
    return await RepositoryConfig(os.environ).of(root)


async def test_settings_of_the_repository_count_and_those_of_the_user_do_not(shop, tmp_path, monkeypatch):
    """RA-14: a user may call what programs they like."""
    (tmp_path / "gitconfig").write_text("[core]\n\tfsmonitor = mine\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert "core.fsmonitor" not in await settings(shop)
    await Git(shop, environ=os.environ)("config", "core.fsmonitor", "theirs")
    assert "core.fsmonitor" in await settings(shop)


async def test_a_folder_within_a_repository_has_its_settings(shop):
    """RA-14: git looks for a repository in the folders above, and takes a folder for one without a checkout."""
    await Git(shop, environ=os.environ)("config", "core.fsmonitor", "theirs")
    (shop / "deep" / "er").mkdir(parents=True)
    bare = shop / "bare"
    await Git(shop, environ=os.environ)("init", "--bare", str(bare))
    await Git(bare, environ=os.environ)("config", "core.pager", "theirs")
    assert "core.fsmonitor" in await settings(shop / "deep" / "er")
    assert "core.pager" in await settings(bare)


async def test_settings_of_submodules_count_at_any_depth(shop):
    """RA-14: `git status` and `git diff` go into them."""
    for name in ("lib", "libs/inner/modules/last"):
        folder = shop / ".git" / "modules" / name
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(f'[filter "{name[-3:]}"]\n\tclean = theirs\n')
    (shop / ".git" / "modules" / "libs" / "inner" / "HEAD").write_text("ref: refs/heads/main\n")
    assert {"filter.lib.clean", "filter.ast.clean"} <= await settings(shop)


async def test_what_was_read_is_read_again_only_when_it_changed(shop):
    """RA-14: a setting, a hook, a worktree's own setting that came since."""
    known = RepositoryConfig(os.environ)
    before = await known.of(shop)
    assert await known.of(shop) is before
    await Git(shop, environ=os.environ)("config", "core.fsmonitor", "theirs")
    assert "core.fsmonitor" in await known.of(shop)
    hooks = shop / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    await known.of(shop)
    (hooks / "post-index-change").write_text("")
    assert "hook.post-index-change" in await known.of(shop)
    (shop / ".git" / "modules" / "lib").mkdir(parents=True)
    (shop / ".git" / "modules" / "lib" / "HEAD").write_text("")
    (shop / ".git" / "modules" / "lib" / "config").write_text("[core]\n\tpager = theirs\n")
    assert "core.pager" in await known.of(shop)


async def test_settings_that_come_from_other_files_are_never_kept(shop, tmp_path):
    """RA-14: what is included may change without any file of the repository."""
    (tmp_path / "more").write_text("")
    await Git(shop, environ=os.environ)("config", "include.path", str(tmp_path / "more"))
    known = RepositoryConfig(os.environ)
    assert "core.pager" not in await known.of(shop)
    (tmp_path / "more").write_text("[core]\n\tpager = theirs\n")
    assert "core.pager" in await known.of(shop)


async def test_a_repository_that_cannot_be_read_is_told(shop):
    """RA-14: nobody takes it for one without settings."""
    (shop / ".git" / "config").write_text("[core\n")
    with pytest.raises(GitError):
        await settings(shop)


async def test_without_a_repository_there_are_none(tmp_path):
    """RA-14."""
    assert await settings(tmp_path / "nowhere") == frozenset()
