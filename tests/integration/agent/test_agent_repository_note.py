"""The note for an agent about its folder, from real repositories."""

import asyncio
import os

import pytest
from inline_snapshot import snapshot

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
    assert (await note(repo)).replace(head, "HEAD").split("\n") == snapshot(
        [
            "Git status at the start of this session: clean",
            "Latest commits at the start:",
            "HEAD Begin",
            "Tests of the repository: `python3 -m pytest -q`",
            "Before you change anything in a folder below, read its instructions: src/core/AGENTS.md",
            "Files at the start: pyproject.toml src/ tests/",
        ]
    )


async def test_changes_are_named_up_to_a_limit(repo):
    """RA-20: what was unfinished before must not be taken for what the agent did in this session."""
    (repo / "src" / "a.py").write_text("x = 2\n")
    for number in range(MAX_CHANGES + 4):
        (repo / f"new{number:02}.py").write_text("")
    lines = (await note(repo)).split("\n")
    assert lines[:3] == snapshot(
        ["Git status at the start of this session (changes from before it):", " M src/a.py", "?? new00.py"]
    )
    assert lines[MAX_CHANGES + 1] == "... 5 more"


async def test_in_a_folder_below_the_top_paths_are_as_commands_see_them(repo):
    """RA-20: AGENTS.md of the root and of the folder are in the prompt already."""
    lines = (await note(repo / "src")).split("\n")
    tests, instructions, files = lines[-3:]
    assert tests.endswith(": `python3 -m pytest -q`")
    assert instructions.endswith(": core/AGENTS.md")
    assert files.endswith(": a.py core/")


async def test_the_users_configuration_of_git_changes_nothing(repo):
    """RA-20: colours, a headline and paths from the top are for people."""
    settings = ("color.ui=always", "status.branch=true", "status.relativePaths=false", "status.showStash=true")
    for name, _, value in (setting.partition("=") for setting in settings):
        await asyncio.to_thread(git, repo, "config", name, value)
    (repo / "tests" / "test_a.py").rename(repo / "tests" / "test_b.py")
    (repo / "new").mkdir()
    (repo / "new" / "line\nbreak é").write_text("")
    await asyncio.to_thread(git, repo, "add", "-A", "tests")
    lines = (await note(repo / "src")).split("\n")
    assert lines[1:4] == ["D  ../tests/test_a.py", "A  ../tests/test_b.py", "?? ../new/"]


async def test_each_folder_below_is_named_with_the_file_that_counts(repo):
    """RA-20: whole paths, which can be read."""
    folders = [f"services/team-{number:02}/backend" for number in range(12)]
    for each in folders:
        (repo / each).mkdir(parents=True)
        (repo / each / "CLAUDE.md").write_text("x")
    (repo / folders[0] / "AGENTS.md").write_text("y")
    await asyncio.to_thread(git, repo, "add", "-A")
    (line,) = (each for each in (await note(repo)).split("\n") if each.startswith("Before you change"))
    named = line.partition(": ")[2].split(", ")
    assert named[:2] == ["services/team-00/backend/AGENTS.md", "services/team-01/backend/CLAUDE.md"]
    assert named[-1] == "services/team-09/backend/CLAUDE.md and 3 more"


async def test_a_folder_without_a_repository_or_commits_is_described_by_its_files(folder):
    assert await note(folder) == snapshot("Files at the start: none")
    (folder / "a b").write_text("")
    (folder / "line\nbreak").write_text("")
    assert await note(folder) == snapshot('Files at the start: a b "line\\nbreak"')
    await asyncio.to_thread(git, folder, "init")
    assert (await note(folder)).startswith("Files at the start: ")
    for number in range(MAX_ENTRIES):
        (folder / f"f{number}").write_text("")
    assert (await note(folder)).endswith(" ... 2 more")


async def test_a_link_that_leads_in_a_circle_is_one_of_the_files(folder):
    """RA-21: an ordinary answer."""
    (folder / "a").mkdir()
    (folder / "circle").symlink_to("circle")
    assert (await note(folder)).endswith(": a/ circle")


async def test_a_broken_repository_is_described_by_its_files(repo):
    (repo / ".git" / "HEAD").write_text("garbage")
    assert (await note(repo)).endswith(": pyproject.toml src/ tests/")


async def test_a_commit_cannot_write_lines_of_its_own(repo):
    """A subject is somebody else's text: it stays on its line and is limited in length."""
    await asyncio.to_thread(git, repo, "commit", "--allow-empty", "-m", "x" * 300 + "\x1b[31m")
    subject = (await note(repo)).split("\n")[2]
    assert len(subject) < 220
    assert "\x1b" not in subject
