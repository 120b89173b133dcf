"""The version of a build: the tag's, in a checkout, an sdist, and a copy that has neither."""

import shutil
import subprocess  # noqa: TID251 - the build is started as pip starts it
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a folder with what a build reads, and a repository of one commit."""
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    user = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *user, *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "a change")


def version(folder: Path) -> str:
    """Return the version that a build of this folder would have."""
    asked = [sys.executable, "-m", "hatchling", "version"]
    return subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_a_tagged_commit_has_the_version_of_its_tag(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.0rc1")
    assert version(checkout) == "1.2.0rc1"


def test_a_commit_behind_a_tag_has_a_version_between_that_and_the_next(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.0")
    git(checkout, "tag", "a-tag-of-another-kind-9.9")
    commit(checkout)
    assert version(checkout).startswith("1.2.1.dev1+g")


def test_a_clone_without_tags_has_a_version_before_the_first(checkout: Path) -> None:
    git(checkout, "tag", "nightly-2026")
    assert version(checkout).startswith("0.1.dev1+g")


def test_changed_files_show_in_the_version_of_a_tagged_commit(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.0")
    (checkout / "README.md").write_text("# Changed\n")
    assert version(checkout).startswith("1.2.1.dev0+g")


def test_an_sdist_keeps_its_version_without_git(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")  # noqa: TID251 - a small folder
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: ralph-scaffold\nVersion: 1.2.0\n\n# Scaffold\n")
    assert version(checkout) == "1.2.0"


def test_a_copy_without_git_and_metadata_has_a_version_before_the_first(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")  # noqa: TID251 - likewise
    assert version(checkout) == "0.1.dev0"
