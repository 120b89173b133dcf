"""Commands around commands on a real disk: loops, `xargs`, `find -exec`, `timeout`, git in a folder, logs."""

import os
from pathlib import Path

import pytest

from builders import make_repository
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import DecisionContext, DiskFileSystem, WorkspacePaths


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = make_repository(tmp_path / "shop")
    (shop / "src").mkdir()
    for name in ("src/a.py", "src/b.py"):
        (shop / name).write_text("")
    return shop


async def said(command: str, root: Path, *rules: str) -> str:
    workspace = WorkspacePaths(root=str(root), home="/home/u", files=DiskFileSystem())
    ground = DecisionContext(workspace=workspace, allow=tuple(map(parse_rule, rules)))
    return (await ShellCommandPolicy(os.environ).judge(command, ground)).decision


ORDINARY = [
    "find . -name '*.py' | xargs wc -l",
    "find . -name '*.py' -print0 | xargs -0 grep -n main",
    "find src -name '*.py' -exec grep -n main {} +",
    "find . -type f -exec wc -l {} \\;",
    "find . | head -5 | xargs ls -la",
    "cd src && git status",
    "git -C src log --oneline -5",
    "git -C . diff",
    "cat src/{a,b}.py",
    "ls {src,docs}",
    "cat <<'EOF'\nany $text\nEOF",
    "for f in src/a.py src/b.py; do echo $f; head -3 $f; done",
    'for f in src/*.py; do echo "== $f"; wc -l "$f"; done',
    "for f in *.md; do echo $f; done",
    "GIT_PAGER=cat git log -3",
    "PAGER=cat git diff",
    "printenv PATH",
    "printenv LANG TZ",
    "ps aux",
    "ps -ef | grep py",
    "timeout 60 pytest",
    "timeout 60 pytest -q tests",
    "pytest | tee log",
    "pytest -q 2>&1 | tee test.log | tail -5",
    "PYTHONPATH=. pytest",
    "PYTHONPATH=src pytest -q",
    "echo $?",
    'ls missing; echo "exit $?"',
    "timeout 5 git status",
]


async def test_an_ordinary_command_around_commands_is_allowed(shop):
    """RA-13, RA-14: with a rule for pytest only."""
    assert [command for command in ORDINARY if await said(command, shop, "shell:pytest") != "allow"] == []


async def test_names_that_are_found_count_as_their_files(shop):
    """RA-13, RA-14: a secret among them, and a link that leads to one or out of the workspace."""
    commands = ["find . | xargs cat", "find . -exec cat {} +", "find src -name '*' | xargs -n 1 head"]
    assert [await said(command, shop) for command in commands] == ["allow"] * 3
    (shop / "src" / ".env").write_text("KEY=1")
    assert [await said(command, shop) for command in commands] == ["ask"] * 3
    (shop / "src" / ".env").unlink()
    (shop / "src" / "out").symlink_to("/etc/hostname")
    assert [await said(command, shop) for command in commands] == ["ask"] * 3


async def test_a_pattern_counts_only_if_it_limits_the_names(shop):
    """RA-13, RA-14: an action before the pattern, or a choice, lets other names through."""
    (shop / "src" / ".env").write_text("KEY=1")
    commands = {
        "find . -name '*.py' -exec cat {} +": "allow",
        "find . -exec cat {} + -name '*.py'": "ask",
        "find . -print -name '*.py' | xargs cat": "ask",
        "find . -name '*.py' -o -print | xargs cat": "ask",
        "find . ! -name '*.py' | xargs cat": "ask",
        "find . -name '*env' | xargs cat": "ask",
        "find . -name .env | xargs cat": "ask",
        "find . -name .env -exec cat {} +": "deny",
        "find . -name '*.py' | xargs ls -l": "allow",
        "find . | xargs ls -l": "allow",
    }
    assert {command: await said(command, shop) for command in commands} == commands


@pytest.mark.parametrize("name", ["a b", "x /etc/passwd", "it's", 'a"b', "a\\b", "a\nb"])
async def test_a_name_that_xargs_would_split_asks(name, shop):
    """RA-13, RA-14: `x /etc/passwd` is two arguments; with NUL between the names it is one."""
    (shop / "src" / name).parent.mkdir(parents=True, exist_ok=True)
    (shop / "src" / name).write_text("")
    commands = ["find . | xargs cat", "find . -print0 | xargs -0 cat", "find . -exec cat {} +", "find docs | xargs cat"]
    (shop / "docs").mkdir()
    assert [await said(command, shop) for command in commands] == ["ask", "allow", "allow", "allow"]


async def test_git_in_a_folder_counts_as_git_there(shop):
    """RA-13, RA-14: not in another repository, and with paths relative to the folder."""
    (shop / "vendor" / ".git").mkdir(parents=True)
    (shop / "src" / ".env").write_text("KEY=1")
    commands = {
        "git -C src status": "allow",
        "git -C vendor status": "ask",
        "git -C missing status": "ask",
        "git -C .. status": "ask",
        "git -C src -C deep log": "ask",
        "git -C src show HEAD:.env": "deny",
        "git -C src grep --untracked KEY": "ask",
        "git -C src push": "ask",
    }
    assert {command: await said(command, shop) for command in commands} == commands
