"""Which repository a folder belongs to: worktrees share one identity, and no folder can claim another's."""

import os
import shutil

import pytest

from builders import git, make_repository
from scaffold.git.checkouts.worktree_metadata import CheckoutLocation, locate_checkout


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


def test_what_is_no_ordinary_checkout_has_its_own_identity(tmp_path, shop):
    """A plain folder, one with an invalid git directory, a bare repository, and one whose git directory is away."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "invalid" / ".git").mkdir(parents=True)
    git(tmp_path, "clone", "--quiet", "--bare", str(shop), "bare.git")
    git(tmp_path, "init", "--quiet", "--separate-git-dir", str(tmp_path / "away.git"), "here")
    folders = [tmp_path / name for name in ("plain", "invalid", "bare.git", "here")]
    assert [locate_checkout(folder) for folder in folders] == [CheckoutLocation(each, each) for each in folders]


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


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        locate_checkout(tmp_path / "gone")
