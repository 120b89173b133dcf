"""The shared git directory, found without git."""

import os
import subprocess  # noqa: TID251 - git itself is the judge
from pathlib import Path

import pytest

from builders import git, make_repository
from scaffold.core.errors import NotInRepository, RepositoryError
from scaffold.git.checkouts.worktree_metadata import gitdir_target
from scaffold.git.common_dir import find_common_dir


def _as_git_says(folder: Path) -> Path:
    argv = ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=True)
    return Path(os.fsdecode(done.stdout.rstrip(b"\n")))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "my shop")


def test_the_git_directory_is_found_from_anywhere_in_a_checkout(shop: Path) -> None:
    inner = shop / "a" / "b"
    inner.mkdir(parents=True)
    for folder in (shop, inner):
        assert find_common_dir(folder) == _as_git_says(folder) == shop / ".git"


def test_worktrees_share_the_directory_of_their_repository(shop: Path, tmp_path: Path) -> None:
    git(shop, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    assert find_common_dir(tmp_path / "tree") == _as_git_says(tmp_path / "tree") == shop / ".git"


def test_a_git_directory_elsewhere_is_followed(shop: Path, tmp_path: Path) -> None:
    git(shop, "init", "--quiet", f"--separate-git-dir={tmp_path / 'kept'}")
    assert find_common_dir(shop) == _as_git_says(shop) == tmp_path / "kept"


def test_a_repository_within_another_is_its_own(shop: Path) -> None:
    inner = make_repository(shop / "inner")
    assert find_common_dir(inner) == _as_git_says(inner) == inner / ".git"


def test_a_directory_that_only_resembles_a_git_directory_is_skipped(shop: Path) -> None:
    for name in ("empty", "file"):
        (shop / name).mkdir()
    (shop / "empty" / ".git").mkdir()
    (shop / "file" / ".git").write_text("gitdir: /nowhere\n")
    assert find_common_dir(shop / "empty") == _as_git_says(shop / "empty") == shop / ".git"
    assert find_common_dir(shop / "file") == shop / ".git"


def test_a_git_file_leads_to_its_git_directory(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(shop)
    assert find_common_dir(tmp_path / "link") == shop / ".git"


def test_without_a_checkout_the_reason_is_reported(shop: Path, tmp_path: Path) -> None:
    git(shop, "init", "--quiet", "--bare", str(tmp_path / "bare.git"))
    with pytest.raises(RepositoryError, match=r"bare\.git"):
        find_common_dir(tmp_path / "bare.git")
    with pytest.raises(NotInRepository, match=tmp_path.name):
        find_common_dir(tmp_path)


@pytest.mark.parametrize(
    "name", [b"x\0y", b"\0", b"a" * 100_000, b"a/" * 10_000], ids=["zero", "empty", "long", "deep"]
)
def test_a_git_file_that_leads_nowhere_is_no_repository(tmp_path: Path, name: bytes) -> None:
    """BX-9: an agent's command, or whoever packed an archive, can have made it."""
    (tmp_path / ".git").write_bytes(b"gitdir: " + name + b"\n")
    with pytest.raises(NotInRepository):
        find_common_dir(tmp_path)
    gitdir_target(tmp_path)


def test_a_zero_byte_ends_the_name_of_the_shared_directory(shop: Path) -> None:
    (shop / ".git" / "commondir").write_bytes(b".\0\n")
    assert find_common_dir(shop) == shop / ".git"
