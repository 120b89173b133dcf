"""Which repository a folder belongs to: worktrees share one identity, and no folder can claim another's."""

import os
import shutil

import pytest

from builders import git, make_repository
from scaffold.git.worktree_metadata import CheckoutLocation, locate_checkout


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return make_repository(tmp_path / "shop")


def test_a_checkout_belongs_to_its_git_directory_from_any_depth(shop):
    (shop / "a" / "b").mkdir(parents=True)
    expected = CheckoutLocation(shop, shop / ".git")
    assert [locate_checkout(place) for place in (shop, shop / "a" / "b", shop / ".git")] == [expected] * 3


def test_a_linked_worktree_shares_the_identity_of_its_repository(shop, tmp_path):
    git(shop, "worktree", "add", "--quiet", str(tmp_path / "wt"))
    assert locate_checkout(tmp_path / "wt") == CheckoutLocation(tmp_path / "wt", shop / ".git")


def test_a_folder_outside_any_repository_has_its_own_identity(tmp_path):
    (tmp_path / "plain").mkdir()
    assert locate_checkout(tmp_path / "plain") == CheckoutLocation(tmp_path / "plain", tmp_path / "plain")


def test_a_folder_with_an_invalid_git_directory_has_its_own_identity(tmp_path):
    (tmp_path / "plain" / ".git").mkdir(parents=True)
    assert locate_checkout(tmp_path / "plain").common_dir == tmp_path / "plain"


def test_a_bare_repository_has_its_own_identity(tmp_path, shop):
    git(tmp_path, "clone", "--quiet", "--bare", str(shop), "bare.git")
    assert locate_checkout(tmp_path / "bare.git").common_dir == tmp_path / "bare.git"


def test_a_moved_or_copied_repository_has_another_identity(shop, tmp_path):
    before = locate_checkout(shop).common_dir
    shutil.copytree(shop, tmp_path / "copy")
    shop.rename(tmp_path / "moved")
    after = {locate_checkout(tmp_path / name).common_dir for name in ("copy", "moved")}
    assert after == {tmp_path / "copy" / ".git", tmp_path / "moved" / ".git"}
    assert before not in after


@pytest.mark.parametrize("claim", ["link", "pointer", "registration"])
def test_a_folder_that_only_claims_to_belong_to_a_repository_has_its_own_identity(shop, tmp_path, claim):
    """Trust in a repository cannot be obtained by naming it."""
    git(shop, "worktree", "add", "--quiet", str(tmp_path / "wt"))
    (registration,) = (shop / ".git" / "worktrees").iterdir()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    if claim == "link":
        (stranger / ".git").symlink_to(shop / ".git")
    else:
        (stranger / ".git").write_text(f"gitdir: {registration if claim == 'registration' else shop / '.git'}\n")
    assert locate_checkout(stranger) == CheckoutLocation(stranger, stranger)


def test_a_submodule_and_a_separate_git_directory_have_their_own_identity(shop, tmp_path):
    git(tmp_path, "init", "--quiet", "--separate-git-dir", str(tmp_path / "away.git"), "here")
    assert locate_checkout(tmp_path / "here") == CheckoutLocation(tmp_path / "here", tmp_path / "here")


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        locate_checkout(tmp_path / "gone")
