"""Commands of a session on a real machine: rules of every kind, programs that are missing, a broken repository."""

import os

import pytest
from inline_snapshot import snapshot

from builders import make_repository
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.policy.shell.command_policy import BY_NAME, BY_SUBCOMMAND, ShellCommandPolicy
from scaffold.policy.shell.risky_flags import has_flag_list
from scaffold.policy.shell.workspace_paths import DecisionContext, DiskFileSystem, EmptyFileSystem, WorkspacePaths

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())

RULES = {
    # rule, command -> what it comes to
    ("shell:git commit *", "git commit"): "allow",
    ("shell:git commit *", "git commit -m 'a b'"): "allow",
    ("shell:git commit *", "git commit --no-verify"): "ask",
    ("shell:npm run *:dev", "npm run web:dev"): "allow",
    ("shell:npm run *:dev", "npm run web:dev --prefix /x"): "ask",
    ("shell:npm run *:dev", "npm run evil"): "ask",
    ("shell:npm run *", "npm run evil"): "ask",
    ("shell:pytest tests/*", "pytest tests/a.py"): "allow",
    ("shell:pytest tests/*", "pytest tests/../../x.py"): "ask",
    ("shell:pytest *s", "pytest --flags"): "ask",
    ("shell:touch *.py", "touch a.py"): "allow",
    ("shell:touch *.py", "touch ../a.py"): "ask",
    ("shell:touch *.py", "touch .git/a.py"): "deny",
    ("shell:[s]udo ls", "sudo ls"): "ask",
    ("shell:bash [a-z]*", "bash script"): "allow",
    ("shell:bash [!a]*", "bash -c"): "ask",
    ("shell:/make (test|lint)/", "make test"): "allow",
    ("shell:/make (test|lint)/", "make test && make lint"): "allow",
    ("shell:/make (test|lint)/", "make test deploy"): "ask",
    ("shell:/make (test|lint)/", "make test > out"): "ask",
    ("shell:/make .*/", "make $(x)"): "ask",
    ("shell:/python -c .*/", "python -c 'import x'"): "ask",
    ("shell:/sudo .*/", "sudo ls"): "ask",
    ("shell:/cp .* .*/", "cp a ../b"): "ask",
    ("shell:/echo 'a b' x/", 'echo "a b" x > y'): "ask",
    ("shell:/touch 'a b'/", 'touch "a b"'): "allow",
    ("python:make", "make"): "ask",
    ("*:make test", "make test"): "allow",
}


async def test_a_rule_covers_what_it_names_and_no_more():
    """RA-14: words, globs for a word each, expressions for a whole command; risks, wrappers and paths are checked."""

    async def decision(text, command):
        allow = tuple(each for each in (parse_rule(text),) if each.is_for("shell"))
        return (await ShellCommandPolicy().judge(command, DecisionContext(workspace=PLACE, allow=allow))).decision

    assert {(rule, command): await decision(rule, command) for rule, command in RULES} == RULES


async def test_a_protected_branch_asks_although_the_push_does_not_name_it(shop, tmp_path):
    """RA-13, RA-14: `git push` changes the current branch."""
    workspace = WorkspacePaths(root=str(shop), home="/home/u", files=DiskFileSystem())
    ground = DecisionContext(workspace=workspace, allow=(parse_rule("shell:git push"),))
    commands = ["git push", "git push -u origin HEAD", "git push origin @", "git push --tags", "git push origin work"]

    async def said() -> list[str]:
        return [(await ShellCommandPolicy(os.environ).judge(each, ground)).decision for each in commands]

    assert await said() == ["ask", "ask", "ask", "allow", "allow"]
    (shop / ".git" / "HEAD").write_text("ref: refs/heads/work\n")
    assert await said() == ["allow"] * 5
    (shop / ".git").rename(tmp_path / "git")
    (shop / ".git").write_text("gitdir: ../git\n")
    (tmp_path / "git" / "HEAD").write_text("ref: refs/heads/release/2\n")
    assert await said() == ["ask", "ask", "ask", "allow", "allow"]


def test_always_offers_no_program_without_a_list_of_its_flags():
    """RA-13, RA-14: a rule for such a program would cover flags that nobody has looked at."""
    assert [name for name in BY_NAME | BY_SUBCOMMAND if not has_flag_list((name,))] == []
    assert has_flag_list(("uv", "run", "pytest"))
    assert not has_flag_list(("uv", "run", "cowsay"))
    assert not has_flag_list(("python", "-m", "cowsay"))


WIDENING = [
    *("python -c 1", "bash -c ls", "npm run", "find . -exec rm {} +", "xargs rm", "env X=1 pytest", "X=1 pytest"),
    *("git -c core.pager=x log", "git difftool", "git bisect run x", "uv tool run x", "uv run python -c 1"),
    *("npm install x", "npm ci", "npx jest", "pnpm exec jest", "yarn node x", "pnpm bash -c x", "cargo install x"),
    *(
        "git some-alias",
        "git submodule update",
        "poetry run bash",
        "npm run node",
        "pip install x",
        "go get x",
        "uv add x",
    ),
]
"""Commands like which others would run anything."""


async def test_always_is_not_offered_for_unknown_programs():
    """RA-13, RA-14."""
    ground = DecisionContext(workspace=PLACE)
    commands = {
        "cowsay hello": None,
        "pip install x": None,
        "gh pr list": None,
        "uv run cowsay": None,
        "uv run pytest -q": "uv run pytest",
        "pylint src": "pylint",
        "git push origin work": "git push",
        "git push origin main": None,
        "git commit -n -m x": None,
        **dict.fromkeys(WIDENING),
        "python -m unittest discover -s tests": "python -m unittest",
        "timeout 60 npm test 2>&1 | tail -5": "npm test",
        "PYTHONPATH=src python -m unittest": "python -m unittest",
        "cargo test some_name": "cargo test",
    }
    offered = {each: await ShellCommandPolicy().suggest_pattern(each, ground) for each in commands}
    assert offered == commands


async def test_without_bash_only_portable_commands_are_allowed(tmp_path):
    """RA-14: the shell tool falls back to another shell, which neither parser knows."""
    ground = DecisionContext(workspace=PLACE, allow=(parse_rule("shell:touch a"),))
    poor, rich = ShellCommandPolicy({"PATH": str(tmp_path)}), ShellCommandPolicy()
    commands = ["ls -la | head -3", "touch a && ls 'x y'", r"ls a\ b", "ls a$", "cat .env"]
    assert [(await rich.judge(each, ground)).decision for each in commands] == [*["allow"] * 4, "deny"]
    assert [(await poor.judge(each, ground)).decision for each in commands] == ["allow", "allow", "ask", "ask", "deny"]
    assert (await poor.judge(r"ls a\ b", ground)).reason == snapshot(
        "the command contains more than plain words, and bash is not installed, so its effects are unknown"
    )


async def test_without_the_second_parser_complex_commands_ask(tmp_path):
    """RA-14: no crash; simple commands are decided as usual, and denials apply."""
    commands = ShellCommandPolicy(parser=tmp_path / "nowhere" / "shfmt")
    asked = await commands.judge(r"ls a\ b", DecisionContext(workspace=PLACE))
    assert (asked.decision, f"{tmp_path}/nowhere/shfmt" in asked.reason) == ("ask", True)
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
