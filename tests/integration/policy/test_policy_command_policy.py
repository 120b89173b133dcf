"""Commands of a session on a real machine: rules of every kind, programs that are missing, a broken repository."""

import os

import pytest

from builders import make_repository
from scaffold.policy.rule.rules import parse_rule
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.decision_context import DecisionContext
from scaffold.policy.shell.workspace_paths import DiskFileSystem, EmptyFileSystem, WorkspacePaths

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())

RULES = [
    # rule, command -> what it comes to
    ("shell:git commit *", "git commit", "allow"),
    ("shell:git commit *", "git commit -m 'a b'", "allow"),
    ("shell:git commit *", "git commit --no-verify", "ask"),
    ("shell:npm run *:dev", "npm run web:dev", "allow"),
    ("shell:npm run *:dev", "npm run web:dev --prefix /x", "ask"),
    ("shell:npm run *:dev", "npm run evil", "ask"),
    ("shell:npm run *", "npm run evil", "ask"),
    ("shell:pytest tests/*", "pytest tests/a.py", "allow"),
    ("shell:pytest tests/*", "pytest tests/../../x.py", "ask"),
    ("shell:pytest *s", "pytest --flags", "ask"),
    ("shell:touch *.py", "touch a.py", "allow"),
    ("shell:touch *.py", "touch ../a.py", "ask"),
    ("shell:touch *.py", "touch .git/a.py", "deny"),
    ("shell:[s]udo ls", "sudo ls", "ask"),
    ("shell:bash [a-z]*", "bash script", "allow"),
    ("shell:bash [!a]*", "bash -c", "ask"),
    ("shell:/make (test|lint)/", "make test", "allow"),
    ("shell:/make (test|lint)/", "make test && make lint", "allow"),
    ("shell:/make (test|lint)/", "make test deploy", "ask"),
    ("shell:/make (test|lint)/", "make test > out", "ask"),
    ("shell:/make .*/", "make $(x)", "ask"),
    ("shell:/python -c .*/", "python -c 'import x'", "ask"),
    ("shell:/sudo .*/", "sudo ls", "ask"),
    ("shell:/cp .* .*/", "cp a ../b", "ask"),
    ("shell:/echo 'a b' x/", 'echo "a b" x > y', "ask"),
    ("shell:/touch 'a b'/", 'touch "a b"', "allow"),
    ("python:make", "make", "ask"),
    ("*:make test", "make test", "allow"),
]


@pytest.mark.parametrize(("rule", "command", "decision"), RULES)
async def test_a_rule_covers_what_it_names_and_no_more(rule, command, decision):
    """RA-14: words, globs for a word each, expressions for a whole command; risks, wrappers and paths are checked."""
    allow = tuple(each for each in (parse_rule(rule),) if each.is_for("shell"))
    judged = await ShellCommandPolicy().judge(command, DecisionContext(workspace=PLACE, allow=allow))
    assert judged.decision == decision, judged


async def test_without_bash_only_portable_commands_are_allowed(tmp_path):
    """RA-14: the shell tool falls back to another shell, which neither parser knows."""
    ground = DecisionContext(workspace=PLACE, allow=(parse_rule("shell:touch a"),))
    poor, rich = ShellCommandPolicy({"PATH": str(tmp_path)}), ShellCommandPolicy()
    commands = ["ls -la | head -3", "touch a && ls 'x y'", r"ls a\ b", "ls a$", "cat .env"]
    assert [(await rich.judge(each, ground)).decision for each in commands] == [*["allow"] * 4, "deny"]
    assert [(await poor.judge(each, ground)).decision for each in commands] == ["allow", "allow", "ask", "ask", "deny"]
    assert "bash is not installed" in (await poor.judge(r"ls a\ b", ground)).reason


async def test_without_the_second_parser_complex_commands_ask(tmp_path):
    """RA-14: no crash; simple commands are decided as usual, and denials apply."""
    commands = ShellCommandPolicy(parser=tmp_path / "nowhere" / "shfmt")
    asked = await commands.judge(r"ls a\ b", DecisionContext(workspace=PLACE))
    assert (asked.decision, "shfmt cannot be run" in asked.reason) == ("ask", True)
    assert (await commands.judge("ls -la", DecisionContext(workspace=PLACE))).decision == "allow"
    assert (await commands.judge(r"cat .env a\ b", DecisionContext(workspace=PLACE))).decision == "deny"
    assert await commands.suggest_pattern(r"touch a\ b", DecisionContext(workspace=PLACE)) is None


@pytest.fixture
def shop(tmp_path):
    return make_repository(tmp_path / "shop")


async def test_a_repository_with_unreadable_settings_asks(shop):
    """RA-14."""
    (shop / ".git" / "config").write_text("[core\n")
    ground = DecisionContext(workspace=WorkspacePaths(root=str(shop), home="/home/u", files=DiskFileSystem()))
    said = [await ShellCommandPolicy(os.environ).judge(each, ground) for each in ("git status", "ls", "git diff .env")]
    assert [(each.decision, each.rule.partition(":")[0]) for each in said] == [
        ("ask", "git"),
        ("allow", "read-only"),
        ("deny", "secret"),
    ]
    assert await ShellCommandPolicy(os.environ).suggest_pattern("git commit", ground) is None
