"""A repository's own settings, cached until they change."""

import os

import pytest

from builders import make_repository
from scaffold.core.errors import GitError
from scaffold.git.client.command_line import Git
from scaffold.git.repository_config import RepositoryConfig


@pytest.fixture
def shop(tmp_path):
    return make_repository(tmp_path / "shop")


async def settings(root):
    return await RepositoryConfig(os.environ).program_settings(root)


async def test_settings_of_the_repository_count_and_the_user_s_do_not(shop, tmp_path, monkeypatch):
    """RA-14: users may configure any program they like."""
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
    """RA-14: `git status` and `git diff` read them."""
    for name in ("lib", "libs/inner/modules/last"):
        folder = shop / ".git" / "modules" / name
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(f'[filter "{name[-3:]}"]\n\tclean = theirs\n')
    (shop / ".git" / "modules" / "libs" / "inner" / "HEAD").write_text("ref: refs/heads/main\n")
    assert {"filter.lib.clean", "filter.ast.clean"} <= await settings(shop)


async def test_settings_are_read_again_only_after_a_change(shop):
    """RA-14: a new setting, hook, or worktree setting."""
    known = RepositoryConfig(os.environ)
    before = await known.program_settings(shop)
    assert await known.program_settings(shop) is before
    await Git(shop, environ=os.environ)("config", "core.fsmonitor", "theirs")
    assert "core.fsmonitor" in await known.program_settings(shop)
    hooks = shop / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    await known.program_settings(shop)
    (hooks / "post-index-change").write_text("")
    assert "hook.post-index-change" in await known.program_settings(shop)
    (shop / ".git" / "modules" / "lib").mkdir(parents=True)
    (shop / ".git" / "modules" / "lib" / "HEAD").write_text("")
    (shop / ".git" / "modules" / "lib" / "config").write_text("[core]\n\tpager = theirs\n")
    assert "core.pager" in await known.program_settings(shop)


async def test_settings_with_includes_are_never_cached(shop, tmp_path):
    """RA-14: an included file may change without any file of the repository."""
    (tmp_path / "more").write_text("")
    await Git(shop, environ=os.environ)("config", "include.path", str(tmp_path / "more"))
    known = RepositoryConfig(os.environ)
    assert "core.pager" not in await known.program_settings(shop)
    (tmp_path / "more").write_text("[core]\n\tpager = theirs\n")
    assert "core.pager" in await known.program_settings(shop)


async def test_an_unreadable_repository_is_an_error(shop):
    """RA-14: it must not look like one without settings."""
    (shop / ".git" / "config").write_text("[core\n")
    with pytest.raises(GitError):
        await settings(shop)


async def test_without_a_repository_there_are_no_settings(tmp_path):
    """RA-14."""
    assert await settings(tmp_path / "nowhere") == frozenset()
