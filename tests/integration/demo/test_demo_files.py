"""The material of `scaffold demo`: a sample project, a plan for it, and what the model says on the way.

In the package every file of the project carries `.txt` behind its name, so that no tool takes it for our own code;
whoever lays the project out takes that suffix off again.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import scaffold.cli
from scaffold.core.conversation import AssistantMessage, Caller, Request, ToolCall
from scaffold.core.plan import DEFAULT_ROLE
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import CommandResult, run_command
from scaffold.llm.cassette_file import load_cassette
from scaffold.llm.cassette_model import CassetteModel

DEMO = Path(scaffold.cli.__file__).parent / "demo_files"
CASSETTE = load_cassette(DEMO / "cassette.yaml")
PLAN = yaml.safe_load((DEMO / "plan.yaml").read_text(encoding="utf-8"))
ACTIONS: dict[str, dict[str, Any]] = {action["key"]: action for goal in PLAN["goals"] for action in goal["actions"]}
RIVALS = ["sliding-window", "token-bucket"]
"""Both add to the one line of turnstile/strategies.py that names every strategy."""


class Workspace:
    """A repository with the sample project, in which the cassette's tool calls are executed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        environ = child_environment(os.environ, {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"})
        self._environ = environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"}
        self._model = CassetteModel(CASSETTE)

    async def lay_out(self) -> None:
        for source in (DEMO / "project").rglob("*"):
            if source.is_file():
                assert source.suffix == ".txt", source
                target = self.root / source.relative_to(DEMO / "project").with_suffix("")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        await self.git("init", "-q", "-b", "main")
        await self.commit("start")

    async def sh(self, command: str) -> CommandResult:
        return await run_command(["/bin/sh", "-c", command], cwd=self.root, env=self._environ, timeout_s=30)

    async def git(self, *words: str, ok: int = 0) -> str:
        user = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = await run_command(["git", *user, *words], cwd=self.root, env=self._environ, timeout_s=30)
        assert done.exit_code == ok, done
        return done.stdout.decode().strip()

    async def commit(self, message: str) -> str:
        await self.git("add", "--all")
        await self.git("commit", "-q", "-m", message)
        return await self.git("rev-parse", "HEAD")

    async def said(self, key: str, attempt: int, turn: int) -> AssistantMessage:
        role = ACTIONS[key].get("role", DEFAULT_ROLE)
        caller = Caller(role=role, action=key, attempt=attempt, turn=turn)
        return (await self._model.reply(Request(caller=caller, system="", messages=()))).message

    async def perform(self, key: str, *, attempt: int, turn: int = 1) -> int:
        """Execute replies from `turn` on until one has no calls; return the turn after it."""
        while (message := await self.said(key, attempt, turn)).tool_calls:
            for call in message.tool_calls:
                await self._carry_out(call)
            turn += 1
        assert 1 <= len(message.text.strip().splitlines()) <= 3
        return turn + 1

    async def _carry_out(self, call: ToolCall) -> None:
        match call.name, call.args:
            case "read_file", {"path": path}:
                assert (self.root / path).is_file(), path
            case "write_file", {"path": path, "content": content}:
                (self.root / path).write_text(content, encoding="utf-8")
            case "shell", {"command": command, "timeout_s": int()}:
                await self.sh(command)
            case _:
                pytest.fail(f"an unknown tool, or wrong arguments: {call}")

    async def failures(self, key: str) -> list[str]:
        """Return the failures of the action's contract with the files as they are, compared to the last commit."""
        contract = ACTIONS[key]["contract"]
        wrong = [path for path in contract.get("must_exist", []) if not (self.root / path).exists()]
        frozen = contract.get("must_not_change", [])
        if frozen:
            wrong += (await self.git("status", "--porcelain", "--", *frozen)).splitlines()
        return wrong + await self.red(key)

    async def red(self, key: str) -> list[str]:
        """Return the commands of the action's contract that fail, each with its output."""
        wrong = []
        for check in ACTIONS[key]["contract"]["commands"]:
            done = await self.sh(check["command"])
            if not as_expected(check.get("expect", "exit 0"), done):
                wrong.append(f"{check['command']}\n{done.stdout.decode()}{done.stderr.decode()}")
        return wrong

    async def land(self, key: str, *, attempt: int) -> str:
        """Execute the action, returning failures to it, until it passes; commit the result."""
        turn = await self.perform(key, attempt=attempt)
        if await self.failures(key):
            await self.perform(key, attempt=attempt, turn=turn)
        assert await self.failures(key) == []
        return await self.commit(ACTIONS[key]["description"].splitlines()[0])


def as_expected(expect: str, done: CommandResult) -> bool:
    kind, _, wanted = expect.removeprefix("output ").partition(" ")
    if kind == "contains":
        return wanted in done.stdout.decode()
    assert kind == "exit"
    return done.exit_code == int(wanted)


def ready(facts: set[str], landed: list[str]) -> list[str]:
    open_ones = [action for key, action in ACTIONS.items() if key not in landed]
    return [action["key"] for action in open_ones if facts.issuperset(action.get("preconditions", []))]


@pytest.fixture
async def workspace(tmp_path: Path) -> Workspace:
    sample = Workspace(tmp_path / "turnstile")
    await sample.lay_out()
    return sample


async def test_the_project_starts_with_exactly_one_failing_test(workspace: Workspace) -> None:
    done = await workspace.sh("python -m unittest -v")
    results = [line for line in done.stderr.decode().splitlines() if line.endswith((" ... ok", "ERROR", "FAIL"))]
    assert [line.partition(" ")[0] for line in results if not line.endswith("ok")] == ["test_units_may_be_one_letter"]
    assert len(results) > 5
    assert done.exit_code == 1
    assert (await workspace.sh("python -m doctest README.md")).exit_code == 0
    assert await workspace.git("status", "--porcelain", "--ignored") == ""


def test_plan_and_cassette_have_the_same_actions() -> None:
    """Replies name no role, so each answers the worker of its action whatever role the plan gives it."""
    assert {entry.when.action for entry in CASSETTE.entries} == set(ACTIONS)
    assert {entry.when.role for entry in CASSETTE.entries} == {None}
    assert len(ACTIONS) == sum(len(goal["actions"]) for goal in PLAN["goals"])
    for goal in PLAN["goals"]:
        assert sorted(goal["goal_state"]) == sorted(effect for each in goal["actions"] for effect in each["effects"])


def test_a_run_costs_a_few_cents() -> None:
    cents = 100 * sum(CASSETTE.prices.cost_usd(entry.usage) for entry in CASSETTE.entries)
    assert 1 < cents < 10


@pytest.mark.slow
@pytest.mark.parametrize(("newest_first", "attempt"), [pytest.param(False, 2, marks=pytest.mark.slow), (True, 3)])
async def test_every_action_fails_before_and_passes_after_in_any_landing_order(
    workspace: Workspace, newest_first: bool, attempt: int
) -> None:
    """The sample plan's part of BX-5: no contract is met before its action; all of them are met together at the end."""
    facts: set[str] = set()
    landed: list[str] = []
    while candidates := ready(facts, landed):
        key = candidates[-1 if newest_first else 0]
        own_check = ACTIONS[key]["contract"]["commands"][-1]  # rests on none of the tests that the agent writes
        assert any(failure.startswith(own_check["command"]) for failure in await workspace.red(key))
        await workspace.land(key, attempt=attempt)
        changed = (await workspace.git("show", "--name-only", "--format=", "HEAD")).splitlines()
        assert sorted(changed) == sorted(ACTIONS[key].get("files", changed))  # one of them names none
        facts.update(ACTIONS[key]["effects"])
        landed.append(key)
    assert sorted(landed) == sorted(ACTIONS)
    assert [await workspace.failures(key) for key in ACTIONS] == [[]] * len(ACTIONS)
    assert (await workspace.sh("python -m unittest -q")).exit_code == 0


@pytest.mark.parametrize("attempt", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_the_off_by_one_in_the_first_headers_is_fixed_in_the_same_attempt(
    workspace: Workspace, attempt: int
) -> None:
    turn = await workspace.perform("headers", attempt=attempt)
    [failure] = await workspace.failures("headers")
    assert "'Retry-After': '0'" in failure
    await workspace.perform("headers", attempt=attempt, turn=turn)
    assert await workspace.failures("headers") == []


async def test_the_two_strategies_pause_in_their_first_attempt_only(workspace: Workspace) -> None:
    for key in RIVALS:
        for attempt in (1, 2):
            calls = (await workspace.said(key, attempt, 1)).tool_calls
            assert any("sleep" in call.args.get("command", "") for call in calls) == (attempt == 1)
