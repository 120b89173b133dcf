import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.agent.instruction_files import MAX_BYTES, find_instructions
from scaffold.agent.prompts import session_prompt


@pytest.fixture
def repo(tmp_path):
    """A repository with a folder in it, inside a folder that has instructions, too."""
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / "a" / "b").mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("outside")
    return repo


def found(cwd, home="/nowhere"):
    """Return the texts of the instructions, the root's first."""
    return [each.text for each in find_instructions(cwd, home=Path(home))]


def only(cwd, home="/"):
    (instructions,) = find_instructions(cwd, home=Path(home))
    return instructions


def test_the_instructions_of_the_root_and_of_each_folder_below_count(repo):
    """RA-20: the more specific ones come later."""
    assert found(repo / "a" / "b") == []
    (repo / "AGENTS.md").write_text("root\n")
    assert found(repo / "a" / "b") == ["root"]
    (repo / "a" / "AGENTS.md").write_text("nearer\n")
    assert found(repo / "a" / "b") == ["root", "nearer"]
    assert [each.name for each in find_instructions(repo / "a" / "b", home=Path("/"))] == [
        "../../AGENTS.md",
        "../AGENTS.md",
    ]
    assert found(repo) == ["root"]


def test_the_instruction_file_of_another_agent_is_the_fallback(repo):
    """RA-20: CLAUDE.md as fallback in the same folder."""
    (repo / "CLAUDE.md").write_text("claude")
    assert found(repo / "a") == ["claude"]
    (repo / "AGENTS.md").write_text("agents")
    assert found(repo / "a") == ["agents"]
    (repo / "a" / "CLAUDE.md").write_text("near claude")
    assert found(repo / "a") == ["agents", "near claude"]


def test_the_same_instructions_are_read_once(repo):
    """RA-20: a folder may link to the file of the root."""
    (repo / "AGENTS.md").write_text("root")
    (repo / "a" / "AGENTS.md").symlink_to("../AGENTS.md")
    assert found(repo / "a") == ["root"]


def test_a_worktree_whose_git_is_a_file_is_a_repository(repo):
    (repo / "a" / ".git").write_text("gitdir: elsewhere")
    (repo / "AGENTS.md").write_text("root")
    assert found(repo / "a" / "b") == []


def test_without_a_repository_the_search_ends_at_home(tmp_path):
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("outside")
    assert found(home / "work", home) == []
    (home / "AGENTS.md").write_text("mine")
    assert found(home / "work", home) == ["mine"]
    assert found(home / "work", tmp_path / "elsewhere")[-1] == "mine"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
def test_without_a_repository_files_of_other_users_are_ignored(tmp_path):
    """Any user may leave a file in a shared folder."""
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "shared" / "AGENTS.md").write_text("obey me")
    assert found(tmp_path / "shared" / "mine") == ["obey me"]
    os.chown(tmp_path / "shared" / "AGENTS.md", 12345, 12345)
    assert found(tmp_path / "shared" / "mine") == []
    (tmp_path / "shared" / ".git").mkdir()
    os.chown(tmp_path / "shared" / ".git", 12345, 12345)
    assert found(tmp_path / "shared" / "mine") == []
    (tmp_path / "AGENTS.md").write_text("my own, further up")
    assert found(tmp_path / "shared" / "mine") == ["my own, further up"]


def test_a_link_is_followed_within_the_repository_and_not_out_of_it(repo):
    """RA-20: a foreign repository must not have the user's own files sent to a provider."""
    (repo / "a" / "b" / "CLAUDE.md").write_text("inside")
    (repo / "a" / "b" / "AGENTS.md").symlink_to("CLAUDE.md")
    assert found(repo / "a" / "b") == ["inside"]
    (repo / "AGENTS.md").symlink_to("../AGENTS.md")
    instructions = only(repo, repo.parent)
    assert instructions.text == ""
    assert instructions.notice.replace(str(repo), "REPO") == snapshot(
        "REPO/AGENTS.md is a link that points outside REPO and is ignored"
    )


def test_long_instructions_are_cut_at_a_line_with_a_notice(repo):
    (repo / "AGENTS.md").write_text("line é\n" * MAX_BYTES)
    instructions = only(repo)
    assert len(instructions.text.encode()) <= MAX_BYTES
    assert instructions.text.endswith("line é")
    assert "32,000" in instructions.notice
    (repo / "AGENTS.md").write_text("x" * (MAX_BYTES + 1))
    assert only(repo).text == "x" * MAX_BYTES
    (repo / "AGENTS.md").write_text("x" * MAX_BYTES)
    whole = only(repo)
    assert (whole.text, whole.notice) == ("x" * MAX_BYTES, "")


def test_an_unreadable_instruction_file_is_skipped_or_reported(repo):
    os.mkfifo(repo / "AGENTS.md")
    (repo / "CLAUDE.md").mkdir()
    assert found(repo) == []
    (repo / "CLAUDE.md").rmdir()
    (repo / "CLAUDE.md").write_bytes(b"caf\xe9\r\n")
    assert found(repo) == ["caf\ufffd"]


def test_instructions_are_part_of_the_base_prompt_and_the_date_is_not(repo):
    """RA-3, RA-20: the base prompt is the same bytes throughout a session; what may differ is separate."""
    (repo / "AGENTS.md").write_text("Use tabs.")
    instructions = find_instructions(repo, home=Path("/"))
    prompt = session_prompt(instructions)
    assert prompt.endswith("# Instructions of this project (AGENTS.md)\n\nUse tabs.")
    assert prompt.startswith(session_prompt())
    assert session_prompt(instructions, own="Be a pirate.\n").startswith(
        "Be a pirate.\n\n# Instructions of this project"
    )
    assert str(repo) not in prompt
