"""Hooks, skills, roles and commands of folders, good and hostile: what is found, trusted and used."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.agent.model_access import open_user_store
from scaffold.config.folder_trust import folder_trust
from scaffold.config.settings import load_settings
from scaffold.config.trusted_extensions import find_extensions, run_extensions
from scaffold.core.errors import UsageError
from scaffold.git.repository import Repository

SKILL = "---\ndescription: d\n---\nbody"


@pytest.fixture
def top(tmp_path, home):
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def place(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def hooks(*commands, event="PreToolUse"):
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": each} for each in commands]}]}}


def trust(top):
    folder = folder_trust(top).folder
    with closing(open_user_store()) as store, store.transaction(durable=True):
        store.trust.agree(folder.identity, folder.fingerprint, folder.digests)


def found(top, home):
    notices = []
    settings = load_settings(top, os.environ, {})
    return find_extensions(settings, settings.trust, home=home, notice=notices.append), notices


def test_those_of_a_folder_count_once_it_is_trusted_and_until_it_changes(top, home):
    """RA-16."""
    extensions, notices = found(top, home)
    assert (extensions.hooks, extensions.skills, extensions.folder, notices) == ((), (), "", [])
    place(
        top,
        {
            ".claude/settings.json": hooks("./scripts/check.sh"),
            "scripts/check.sh": "exit 0",
            ".claude/skills/a/SKILL.md": SKILL,
            ".agents/skills/b/SKILL.md": SKILL,
            ".claude/agents/r.md": SKILL,
            ".claude/commands/deep/c.md": "text",
        },
    )
    extensions, [notice] = found(top, home)
    assert (extensions.hooks, extensions.skills) == ((), ())
    assert notice.startswith("hooks, skills, roles, commands of this folder ignored: folder not trusted")
    trust(top)
    extensions, notices = found(top, home)
    assert notices == []
    assert [hook.scripts for hook in extensions.hooks] == [("scripts/check.sh",)]
    assert [skill.name for skill in extensions.skills] == ["a", "b"]
    assert [extensions.roles[0].name, extensions.commands[0].name] == ["r", "c"]
    (top / "scripts" / "check.sh").write_text("exit 1")
    extensions, [notice] = found(top, home)
    assert "scripts/check.sh changed" in notice
    assert extensions.hooks == ()


def test_what_a_hook_only_writes_or_reads_is_not_part_of_the_trust(top, home):
    place(
        top,
        {
            ".claude/settings.json": hooks("jq . >> $CLAUDE_PROJECT_DIR/log.txt; cat data.json"),
            "log.txt": "",
            "data.json": "",
        },
    )
    assert sorted(folder_trust(top).folder.digests) == [".claude/settings.json"]


def test_the_users_own_count_everywhere_and_the_nearest_of_a_name_wins(top, home):
    place(home, {".claude/settings.json": hooks("true"), ".claude/skills/a/SKILL.md": SKILL})
    place(
        home / "scaffold" / "config", {"hooks.json": hooks("false"), "skills/a/SKILL.md": SKILL, "agents/r.md": SKILL}
    )
    extensions, [notice] = found(top, home)
    assert [(hook.command, hook.own) for hook in extensions.hooks] == [("false", True), ("true", True)]
    assert extensions.skills[0].file == str(home / "scaffold" / "config" / "skills" / "a" / "SKILL.md")
    assert notice.startswith("~/.claude/skills/a/SKILL.md has no effect: ")


def test_a_hook_of_the_user_runs_no_script_of_an_untrusted_project(top, home):
    place(home, {".claude/settings.json": hooks("$CLAUDE_PROJECT_DIR/.claude/hooks/x.sh")})
    place(top, {".claude/hooks/x.sh": "exit 0"})
    extensions, notices = found(top, home)
    assert extensions.hooks == ()
    assert " .claude/hooks/x.sh " in notices[-1]
    trust(top)
    assert len(found(top, home)[0].hooks) == 1


def test_in_the_home_itself_the_projects_files_are_the_users(home):
    (home / ".git").mkdir()
    place(home, {".claude/settings.json": hooks("true")})
    assert [hook.own for hook in found(home, home)[0].hooks] == [True]


def test_links_out_of_the_folder_and_pipes_are_never_read(top, home):
    outside = home / "secret.md"
    outside.write_text(SKILL)
    for name in (".claude/skills/a", ".claude/agents", ".claude/commands"):
        (top / name).mkdir(parents=True)
    (top / ".claude" / "skills" / "a" / "SKILL.md").symlink_to(outside)
    os.mkfifo(top / ".claude" / "commands" / "c.md")
    os.mkfifo(home / ".profile")
    (home / ".claude").mkdir()
    os.mkfifo(home / ".claude" / "settings.json")
    (top / ".claude" / "agents" / "loop").symlink_to(top / ".claude" / "agents")
    folder = folder_trust(top).folder
    assert {piece.name: piece.problem for piece in folder.unreadable_files} == snapshot(
        {
            ".claude/commands/c.md": "is not a regular file",
            ".claude/skills/a/SKILL.md": "is a link that points outside the folder",
        }
    )
    assert found(top, home)[0].skills == ()


def test_hostile_settings_cost_a_line(top, home):
    for content in ("hooks" + "[" * 50_000, '{"hooks": 3}', '{"hooks": {"Stop": [[[]]]}}', "null"):
        place(top, {".claude/settings.json": content})
        trust(top)
        extensions, notices = found(top, home)
        assert extensions.hooks == ()
        assert len(notices) <= 1


def test_thousands_of_skills_are_bounded(top, home):
    for at in range(1_200):
        folder = home / ".claude" / "skills" / f"s{at:04}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL)
    extensions, [notice] = found(top, home)
    assert len(extensions.skills) == 200
    assert notice.startswith("800 ")
    assert "200" in notice


def test_a_folder_with_more_than_can_be_looked_at_cannot_be_trusted(top, home):
    for at in range(40):
        place(top, {f".claude/hooks/{at:02}.bin": "x" * 900_000})
    problems = {piece.problem for piece in folder_trust(top).folder.unreadable_files}
    assert problems == snapshot({"makes the configuration too large to look through"})
    with pytest.raises(UsageError, match=problems.pop()):
        folder_trust(top, once=True)


def test_a_run_keeps_copies_of_the_bytes_that_are_trusted(top, home):
    """RA-16: neither the checkout nor a worktree decides what guards a run that has begun."""
    place(top, {".claude/settings.json": hooks("scripts/x.sh"), "scripts/x.sh": "exit 0", ".claude/hooks/lib.sh": "y"})
    (top / "scripts" / "x.sh").chmod(0o755)
    trust(top)
    settings = load_settings(top, os.environ, {})
    (top / "scripts" / "x.sh").write_text("changed meanwhile")
    repository = Repository(root=top, common_dir=top / ".git", git=None)
    first, second = (
        run_extensions(repository, settings, settings.trust, keep=True, notice=lambda line: None) for _ in range(2)
    )
    assert first == second
    kept = top / ".git" / "scaffold" / "extensions"
    assert first.folder.startswith(str(kept))
    assert len(list(kept.iterdir())) == 1
    script = kept / first.folder.rpartition("/")[2] / "scripts" / "x.sh"
    assert (script.read_text(), os.access(script, os.X_OK)) == ("exit 0", True)
    assert set(first.digests) == {"scripts/x.sh", ".claude/hooks/lib.sh"}


def test_copies_that_came_with_a_repository_are_replaced(top, home):
    """RA-16: a script that is trusted sources or imports what lies beside it."""
    place(top, {".claude/settings.json": hooks(".claude/hooks/x.sh"), ".claude/hooks/x.sh": ". $(dirname $0)/lib.sh"})
    place(top, {".claude/hooks/lib.sh": "exit 0"})
    trust(top)
    settings = load_settings(top, os.environ, {})
    repository = Repository(root=top, common_dir=top / ".git", git=None)

    def kept() -> Path:
        return Path(run_extensions(repository, settings, settings.trust, keep=True, notice=lambda line: None).folder)

    beside = kept() / ".claude" / "hooks"
    (beside / "lib.sh").write_text("exit 2")
    assert (kept() / ".claude" / "hooks" / "lib.sh").read_text() == "exit 0"
    (beside / "json.py").write_text("import os; os.abort()")
    assert sorted(each.name for each in (kept() / ".claude" / "hooks").iterdir()) == ["lib.sh", "x.sh"]
    shutil.move(beside, top / "elsewhere")
    beside.symlink_to(top / "elsewhere")
    assert not (kept() / ".claude" / "hooks").is_symlink()


def test_a_project_cannot_let_its_hooks_run_without_a_sandbox(top, home):
    place(top, {".scaffold.yaml": "hooks:\n  sandbox: none\n", ".claude/settings.json": hooks("true")})
    trust(top)
    assert found(top, home)[0].sandbox == "all"
