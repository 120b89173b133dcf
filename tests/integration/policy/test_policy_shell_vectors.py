"""Whole commands and tool calls with their expected decisions: attacks, and ordinary work."""

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import Rule, format_pattern
from scaffold.policy.shell.command_decision import decide_command
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.parse.command_parser import CommandParser, installed_parser
from scaffold.policy.shell.windows_commands import decide_windows_command, dialect_of
from scaffold.policy.shell.workspace_paths import DecisionContext, EmptyFileSystem, WorkspacePaths

HERE = Path(__file__).parent
PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())
TESTING = (("python", "-m", "pytest"), ("pytest",), ("npm", "test"), ("make", "test"))
ELSEWHERE = frozenset({
    *("A-path-011", "A-path-015", "A-path-016", "A-path-021", "A-path-022", "A-path-023", "A-path-024"),
    *("A-web-013", "A-web-014"),
})  # fmt: skip
"""Cases about what happens while a tool works, or about an assignment: the gate is not told of either."""


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (HERE / name).read_bytes().splitlines()]


def rules(*prefixes: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(Rule("shell", format_pattern(prefix)) for prefix in prefixes)


def rules_in(context: str, word: str) -> tuple[Rule, ...]:
    found = re.search(word + r":(\[.*\])", context)
    return rules(tuple(json.loads(found[1]))) if found else ()


async def judged(reader: CommandParser, case: dict) -> PolicyDecision | None:
    """Decide a case of the shared data; None if it is about something else than a tool call."""
    payload, context = case["payload"], case["context"]
    match case["surface"]:
        case "shell" | "git" if context.startswith(("RO", "TEST")):
            if named := dialect_of(payload):
                return decide_windows_command(*named, PLACE)
            allow = rules(*TESTING) if context.startswith("TEST") else rules_in(context, "user")
            return await decide_command(
                payload, DecisionContext(workspace=PLACE, allow=allow, deny=rules_in(context, "deny")), reader
            )
        case "git" if payload.startswith("write "):
            return await called("write_file", path=payload.split()[1])
        case "path":
            return await called(payload["tool"], path=payload["path"])
        case "web":
            return await called("web_fetch", url=payload)
        case _:
            return None


async def called(tool: str, **args: str) -> PolicyDecision:
    allowed = RuleSet(allow=(Rule("web_fetch", "docs.python.org"),))
    return await decide_call(
        permission_request(invocation_by_name(tool, args), PLACE),
        allowed,
        CallContext(workspace=PLACE),
        ShellCommandPolicy(),
    )


@pytest.fixture
def reader() -> CommandParser:
    return CommandParser(installed_parser())


async def test_the_shared_cases_meet_their_targets(reader):
    """RA-13, RA-14: nothing that must be denied is allowed; at most 3% of the benign and 5% of the denials may ask."""
    found = [(case, await judged(reader, case)) for case in rows("attack_vectors.jsonl") if case["id"] not in ELSEWHERE]
    about = [(case, answer.decision) for case, answer in found if answer is not None]
    loose = [case["id"] for case, said in about if said == "allow" and case["expected"] != "allow"]
    benign = [(case["id"], said) for case, said in about if case["klass"] == "benign"]
    denials = [(case["id"], said) for case, said in about if case["expected"] == "deny"]
    assert len(about) > 150
    assert loose == []
    assert sum(said != "allow" for _, said in benign) <= 0.03 * len(benign), benign
    assert sum(said == "ask" for _, said in denials) <= 0.05 * len(denials), denials


@pytest.mark.slow
async def test_each_of_our_own_commands_gets_exactly_its_decision(reader):
    """RA-13, RA-14: read-only commands and those a rule names are allowed, secrets are denied, the rest asks."""
    wrong = []
    for case in rows("commands.jsonl"):
        ground = DecisionContext(
            workspace=PLACE, allow=rules(*case.get("allow", [])), deny=rules(*case.get("deny", []))
        )
        answer = await decide_command(case["command"], ground, reader)
        if answer.decision != case["expected"]:
            wrong.append((case, answer))
    assert wrong == []


async def test_a_command_made_to_break_parsers_asks(reader):
    """RA-14: neither a crash nor a lucky answer."""
    commands = [
        "ls && " * 1300 + "ls",
        "(" * 200 + "ls" + ")" * 200,
        "$(" * 140 + "ls",
        '"$(' * 70 + "x",
        "cd a && " * 49 + "ls",
        "sudo " * 1500 + "ls",
        "bash -c " * 900 + "ls",
        "sed -n '" + " " * 7900 + "x'",
        'sed -n "' + "/a/," * 400 + '"',
        "grep " + "[a" * 3000 + " $x",
        "`" * 149,
    ]
    found = [(await decide_command(command, DecisionContext(workspace=PLACE), reader)).decision for command in commands]
    assert found == ["ask"] * len(commands)


async def test_a_reason_names_the_part_and_its_problem(reader):
    """RA-13."""
    ground = DecisionContext(workspace=PLACE, allow=rules(("pytest",)))
    commands = ["find . -delete", "cat ../x", "ls > out", "X=1 ls", "pytest -c x", "ls\u00a0-la", "cat .env"]
    assert [(await decide_command(command, ground, reader)).reason for command in commands] == snapshot(
        [
            "`find`: may run or write something with `-delete`",
            "`cat`: /x is outside the workspace",
            "it writes out",
            "it sets X, which may change what runs",
            (
                "the rule `shell:pytest` does not cover it: `-c` changes what it does; only a rule that names it can "
                "allow it"
            ),
            (
                "the command contains an invisible character or a non-ASCII space (\\xa0, NO-BREAK SPACE), so its "
                "effects are unknown"
            ),
            ".env contains secrets (.env): agents must not read it",
        ]
    )


async def test_a_parse_is_cached(reader):
    """RA-14."""
    assert await reader.read("ls *.py") is await reader.read("ls *.py")
