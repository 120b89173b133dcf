"""What an agent is told about its folder at the start, from real repositories."""

import asyncio
import os

import pytest

from builders import git
from scaffold.agent.files_note import MAX_ENTRIES
from scaffold.agent.repository_note import MAX_CHANGES, repository_note


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def repo(folder):
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (folder / "src" / "core").mkdir(parents=True)
    (folder / "src" / "core" / "AGENTS.md").write_text("Be pure.")
    (folder / "src" / "a.py").write_text("x = 1\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_a.py").write_text("def test_a(): pass\n")
    git(folder, "init", "--quiet")
    for name, value in (("user.name", "A"), ("user.email", "a@example.com")):
        git(folder, "config", name, value)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "Begin\n\nThe body is not shown.")
    return folder


async def note(folder):
    return await repository_note(folder, os.environ)


async def test_it_says_what_git_knows_and_how_tests_are_run(repo):
    """RA-20: an agent need not ask for what every task needs."""
    head = await asyncio.to_thread(git, repo, "rev-parse", "--short", "HEAD")
    assert (await note(repo)).split("\n") == [
        "Git status at the start: clean",
        "Latest commits at the start:",
        f"{head} Begin",
        "Tests of the repository: `python -m pytest -q`",
        "Read before you change files beside it: src/core/AGENTS.md",
        "Files at the start: pyproject.toml src/ tests/",
    ]


async def test_changes_are_named_up_to_a_limit(repo):
    """RA-20: the user's own unfinished work must not be taken for the agent's."""
    (repo / "src" / "a.py").write_text("x = 2\n")
    for number in range(MAX_CHANGES + 4):
        (repo / f"new{number:02}.py").write_text("")
    lines = (await note(repo)).split("\n")
    assert lines[:3] == ["Git status at the start (changes that are not yours):", " M src/a.py", "?? new00.py"]
    assert lines[MAX_CHANGES + 1] == "... 5 more"


async def test_in_a_folder_below_the_top_paths_are_as_commands_see_them(repo):
    """RA-20: AGENTS.md of the root and of the folder are in the prompt already."""
    lines = (await note(repo / "src")).split("\n")
    assert "Read before you change files beside it: core/AGENTS.md" in lines
    assert lines[-1] == "Files at the start: a.py core/"
    assert "Tests of the repository: `python -m pytest -q`" in lines


async def test_a_folder_without_a_repository_or_commits_is_described_by_its_files(folder):
    assert await note(folder) == "Files at the start: none"
    (folder / "a b").write_text("")
    (folder / "line\nbreak").write_text("")
    assert await note(folder) == 'Files at the start: a b "line\\nbreak"'
    await asyncio.to_thread(git, folder, "init")
    assert (await note(folder)).startswith("Files at the start: ")
    for number in range(MAX_ENTRIES):
        (folder / f"f{number}").write_text("")
    assert (await note(folder)).endswith(" ... 2 more")


async def test_a_link_that_leads_in_a_circle_is_one_of_the_files(folder):
    """RA-21: an ordinary answer."""
    (folder / "a").mkdir()
    (folder / "circle").symlink_to("circle")
    assert await note(folder) == "Files at the start: a/ circle"


async def test_a_broken_repository_is_described_by_its_files(repo):
    (repo / ".git" / "HEAD").write_text("garbage")
    assert (await note(repo)) == "Files at the start: pyproject.toml src/ tests/"


async def test_a_commit_cannot_write_lines_of_its_own(repo):
    """A subject is somebody else's text: it stays on its line and is limited in length."""
    await asyncio.to_thread(git, repo, "commit", "--allow-empty", "-m", "x" * 300 + "\x1b[31m")
    subject = (await note(repo)).split("\n")[2]
    assert len(subject) < 110
    assert "\x1b" not in subject
