"""Hooks as real processes, around the gate and the turns of an agent."""

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.extensions.access import open_hooks
from scaffold.agent.extensions.opened_hooks import MOST_BLOCKED_STOPS
from scaffold.agent.extensions.port import NO_EXTENSIONS, Compacting, SessionEnded, SessionStarted
from scaffold.agent.extensions.setup import ExtensionSetup, HookSession
from scaffold.core.conversation import Text
from scaffold.core.errors import ScaffoldError, TurnStopped
from scaffold.core.extension_set import Extensions, Hook
from scaffold.core.model import Usage
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.tools.arguments import object_schema

YOLO = RuleSet(yolo=True)


def hook(command, event="PreToolUse", *, matcher="", timeout_s=10.0, scripts=(), own=False):
    return Hook(
        event=event, matcher=matcher, command=command, timeout_s=timeout_s, source="s.json", own=own, scripts=scripts
    )


def says(answer):
    return f"cat >/dev/null; echo '{json.dumps(answer)}'"


def decides(decision, **more):
    return says({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}})


class Bench:
    """A gate with hooks around a tool `shell` that notes its calls."""

    def __init__(self, root, *hooks, rules=YOLO, ask=None, digests=None, subagent=False):
        self.root, self.ran, self.lines, self.asked = root, [], [], []
        extensions = Extensions(folder=str(root), hooks=hooks, digests=digests or {})
        environ = {"PATH": os.environ["PATH"]}
        setup = ExtensionSetup(
            cwd=root,
            environ=environ,
            sandbox=None,
            session="c1",
            redactor=Redactor({"TOKEN": "s3cr3t-s3cr3t"}),
            tell=self.lines.append,
        )
        self.hooks = open_hooks(setup, extensions, HookSession(environ=environ, project=root, subagent=subagent))
        self.gate = ApprovalGate(
            rules,
            workspace=WorkspacePaths.on_disk(root, Path.home()),
            clock=SystemClock(),
            tell=lambda outcome: None,
            shell=lambda: ShellCommandPolicy(os.environ),
            approver=self._ask if ask else None,
        )
        self.answer = ask
        self.gate.hooks = self.hooks.calls

    async def _ask(self, question):
        self.asked.append(question)
        return self.answer

    def call(self, command="git push", output="pushed s3cr3t-s3cr3t", failed=False):
        async def run(args):
            self.ran.append(args)
            return ToolOutput(output, failed=failed)

        schema = object_schema({"command": {"type": "string"}}, timeout_s={"type": "number"})
        tool = Tool(name="shell", description="", schema=schema, category="shell", run=run)
        return asyncio.run(self.gate.guard(tool).run({"command": command}))


def test_a_hook_that_blocks_keeps_a_call_from_running_and_tells_the_model_why(tmp_path):
    bench = Bench(tmp_path, hook("grep -q 'git push' && { echo 'no pushing' >&2; exit 2; }", matcher="Bash"))
    assert bench.call().content == "Denied by a hook: no pushing"
    assert bench.call("ls").failed is False
    assert [args["command"] for args in bench.ran] == ["ls"]


def test_a_hook_runs_for_the_tools_that_its_matcher_names_and_for_no_others(tmp_path):
    blocks = dict.fromkeys(["Bash", "shell", "Edit|Bash", "B.*", "*", "", "("], True)
    blocks |= dict.fromkeys(["Edit", "Bas", "^ash", "mcp__.*"], False)
    assert {each: Bench(tmp_path, hook("exit 2", matcher=each)).call().failed for each in blocks} == blocks


def test_a_hook_may_allow_nothing_that_the_gate_would_ask_or_deny(tmp_path):
    """RA-16: a hook tightens, never loosens: without a user a call that needs approval is denied all the same."""
    for own in (False, True):
        bench = Bench(tmp_path, hook(decides("allow"), own=own), rules=RuleSet())
        assert bench.call().failed
        assert bench.ran == []


@pytest.mark.parametrize("decision", ["ask", "defer"])
def test_a_hook_may_have_the_user_asked_whatever_the_rules_allow(tmp_path, decision):
    bench = Bench(tmp_path, hook(decides(decision, permissionDecisionReason="production")), ask="allow")
    assert bench.call().failed is False
    assert "production" in bench.asked[0].why
    assert bench.asked[0].always is None
    refusing = Bench(tmp_path, hook(decides(decision)), ask="deny")
    assert refusing.call().failed
    alone = Bench(tmp_path, hook(decides(decision)))
    assert alone.call().failed
    assert (refusing.ran, alone.ran) == ([], [])


def test_the_call_that_a_hook_changed_is_the_one_that_is_decided_and_runs(tmp_path):
    changed = decides("allow", updatedInput={"command": "git push --dry-run"})
    bench = Bench(tmp_path, hook(changed), rules=RuleSet(), ask="allow")
    bench.call()
    assert bench.asked[0].subject == "git push --dry-run"
    assert bench.ran == [{"command": "git push --dry-run"}]


def test_a_change_to_a_call_that_the_tool_does_not_understand_denies_it(tmp_path):
    bench = Bench(tmp_path, hook(decides("allow", updatedInput={"command": 3})))
    assert "not valid" in bench.call().content
    assert bench.ran == []


def test_hooks_are_told_in_json_and_see_no_secret(tmp_path):
    bench = Bench(tmp_path, hook("cat > told.json", "PostToolUse"))
    bench.call()
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["hook_event_name"] == "PostToolUse"
    assert (told["session_id"], told["cwd"], told["tool_name"]) == ("c1", str(tmp_path), "Bash")
    assert told["tool_input"] == {"command": "git push"}
    assert told["tool_response"]["stdout"] == "pushed [redacted:TOKEN]"


def test_a_hook_after_a_call_adds_to_its_result_unless_the_call_failed(tmp_path):
    bench = Bench(tmp_path, hook("echo 'format it' >&2; exit 2", "PostToolUse"))
    assert bench.call().content.endswith("A hook says: format it")
    assert bench.call(output="boom", failed=True).content == "boom"


def test_a_hook_adds_context_to_a_call_that_runs(tmp_path):
    bench = Bench(tmp_path, hook(decides("allow", additionalContext="use --force-with-lease")))
    assert bench.call().content.endswith("A hook says: use --force-with-lease")


def test_a_hook_stops_the_agent(tmp_path):
    with pytest.raises(TurnStopped, match="enough"):
        Bench(tmp_path, hook(says({"continue": False, "stopReason": "enough"}))).call()


def test_a_hook_that_fails_is_a_line_and_the_call_goes_on(tmp_path):
    for command in ("echo oops; exit 1", "echo '{'", "kill -9 $$", says({"decision": "maybe"})):
        bench = Bench(tmp_path, hook(command))
        assert (command, bench.call().failed, len(bench.lines)) == (command, False, 1)


def test_a_hook_that_fails_each_time_is_said_once(tmp_path):
    bench = Bench(tmp_path, hook("exit 1"))
    bench.call()
    bench.call()
    assert len(bench.lines) == 1


def test_a_hook_that_cannot_run_blocks_with_what_to_do(tmp_path):
    """RA-16."""
    (tmp_path / "plain.sh").write_text("exit 0\n")
    trusted = {"plain.sh": hashlib.sha256(b"exit 0\n").hexdigest()}
    for command, scripts, expected in (
        ("./gone.sh", ("gone.sh",), "does not exist; create it"),
        ("./plain.sh", ("plain.sh",), "chmod +x"),
        ("no-such-program-here", (), "was not found"),
        ("/nowhere/x.sh", ("/nowhere/x.sh",), "does not exist"),
    ):
        bench = Bench(tmp_path, hook(command, scripts=scripts), digests=trusted)
        assert expected in bench.call().content
        assert bench.ran == []
        assert len(bench.lines) == 1


def test_a_script_that_is_not_the_trusted_one_does_not_run(tmp_path):
    script = tmp_path / "x.sh"
    script.write_text("touch ran\n")
    bench = Bench(tmp_path, hook("sh x.sh", scripts=("x.sh",)), digests={"x.sh": hashlib.sha256(b"").hexdigest()})
    assert "x.sh" in bench.call().content
    assert not (tmp_path / "ran").exists()


def test_a_hook_that_hangs_is_ended_with_all_it_started_and_blocks(tmp_path):
    bench = Bench(tmp_path, hook("sleep 600 & echo $! > pid; wait", timeout_s=0.3))
    assert "0.3 s" in bench.call().content
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_hook_that_floods_costs_neither_memory_nor_the_call(tmp_path):
    bench = Bench(tmp_path, hook("head -c 50000000 /dev/zero | tr '\\0' 'x'"), hook("yes '{' | head -c 50000000"))
    assert bench.call().failed is False
    assert any("too long" in line for line in bench.lines)


def test_the_same_command_runs_once_for_an_event(tmp_path):
    bench = Bench(tmp_path, hook("echo x >> count"), hook("echo x >> count", matcher="Bash"))
    bench.call()
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_task_is_completed_only_if_a_hook_lets_it(tmp_path):
    bench = Bench(tmp_path, hook("grep -q 'write tests' && { echo 'no tests yet' >&2; exit 2; }", "TaskCompleted"))
    schema = object_schema({"todos": {"type": "array"}})

    async def run(args):
        return ToolOutput("saved")

    tool = Tool(name="TodoWrite", description="", schema=schema, category="memory", run=run)
    write = bench.gate.guard(tool).run
    assert "no tests yet" in asyncio.run(write({"todos": [{"content": "write tests", "status": "completed"}]})).content
    assert asyncio.run(write({"todos": [{"content": "write tests", "status": "pending"}]})).content == "saved"
    assert asyncio.run(write({"todos": [{"content": "read", "status": "completed"}]})).content == "saved"


class Talker:
    """An agent that notes its prompts."""

    def __init__(self):
        self.prompts = []

    async def turn(self, prompt):
        self.prompts.append(prompt)
        return TurnResult(f"reply {len(self.prompts)}", Usage(requests=1), 1)


def turn_of(bench, agent):
    return asyncio.run(bench.hooks.turn(agent, "go"))


def test_a_hook_sends_an_agent_on_that_wants_to_stop(tmp_path):
    stop = "grep -q '\"stop_hook_active\":true' && exit 0; echo 'run the tests' >&2; exit 2"
    bench, agent = Bench(tmp_path, hook(stop, "Stop")), Talker()
    result = turn_of(bench, agent)
    assert agent.prompts == ["go", (Text("A hook wants you to go on: run the tests", "note"),)]
    assert (result.text, result.requests, result.usage.requests) == ("reply 2", 2, 2)


def test_hooks_that_never_let_an_agent_stop_are_bounded(tmp_path):
    bench, agent = Bench(tmp_path, hook("exit 2", "Stop")), Talker()
    turn_of(bench, agent)
    assert len(agent.prompts) == 1 + MOST_BLOCKED_STOPS
    assert "it stops now" in bench.lines[-1]


def test_a_stop_hook_that_cannot_run_is_an_error_and_not_a_pass(tmp_path):
    bench, agent = Bench(tmp_path, hook("./gone.sh", "Stop", scripts=("gone.sh",))), Talker()
    with pytest.raises(ScaffoldError, match="does not exist"):
        turn_of(bench, agent)
    assert agent.prompts == ["go"]


def test_a_subagent_has_its_own_event_for_its_end(tmp_path):
    agent = Talker()
    turn_of(Bench(tmp_path, hook("exit 2", "Stop"), hook("touch ended", "SubagentStop"), subagent=True), agent)
    assert agent.prompts == ["go"]
    assert (tmp_path / "ended").exists()


def test_a_message_is_refused_or_gets_context(tmp_path):
    bench = Bench(
        tmp_path,
        hook("grep -q secretly && { echo 'say it openly' >&2; exit 2; }; echo 'It rains.'", "UserPromptSubmit"),
    )
    assert asyncio.run(bench.hooks.user_input("hello", "a page")) == ("hello", "a page\n\nIt rains.")
    with pytest.raises(ScaffoldError, match="say it openly"):
        asyncio.run(bench.hooks.user_input("secretly", ""))


def test_what_a_hook_says_at_the_start_goes_with_the_first_message(tmp_path):
    bench = Bench(tmp_path, hook("echo 'read NOTES'", "SessionStart", matcher="startup"))

    async def talk():
        await bench.hooks.announce(SessionStarted("startup"))
        return [await bench.hooks.user_input("a", ""), await bench.hooks.user_input("b", "")]

    assert asyncio.run(talk()) == [("a", "read NOTES"), ("b", "")]


@pytest.mark.slow
def test_the_end_of_a_session_waits_for_no_hook(tmp_path):
    hooks, started = Bench(tmp_path, hook("sleep 60", "SessionEnd", timeout_s=60)).hooks, time.monotonic()

    async def end():
        await hooks.announce(SessionEnded("other"))  # it has not begun
        await hooks.announce(SessionStarted("startup"))
        await hooks.announce(SessionEnded("other"))

    asyncio.run(end())
    assert time.monotonic() - started < 15


def test_a_hook_keeps_a_conversation_from_being_shortened(tmp_path):
    bench = Bench(tmp_path, hook("exit 2", "PreCompact", matcher="manual"))
    assert asyncio.run(bench.hooks.announce(Compacting("manual"))) != ""
    assert asyncio.run(bench.hooks.announce(Compacting("auto"))) == ""


def test_an_agent_without_hooks_has_none_that_could_cost_something(tmp_path):
    assert Bench(tmp_path).hooks is NO_EXTENSIONS
