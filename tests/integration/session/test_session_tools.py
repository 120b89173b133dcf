import os
import re

import pytest

from fakes import ECHO
from scaffold.agent.modes import CurrentMode
from scaffold.host.child_environment import child_environment
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.file_history import FileHistory
from scaffold.session.tool_setup import ToolSetup, load_session_tools
from scaffold.tools.todos import Todos
from support.fake_clock import FakeClock

FREE = RuleSet(yolo=True)
WAITS = '''
import time
from pathlib import Path

Path("{mine}").touch()
while not Path("{other}").exists():
    time.sleep(0.01)

def {mine}(text: str) -> str:
    """Say {mine}."""
    return "{mine}"
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of the user's own tools."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "config" / "tools"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def open_kit(tmp_path, own):
    """Return the tools of a session in an empty folder, by name, and the notices to the user."""
    cwd = tmp_path / "work"
    cwd.mkdir()

    async def open_kit(rules=FREE, more=(), ask=None, conversation="mine"):
        gate = ApprovalGate(
            rules,
            workspace=WorkspacePaths.on_disk(cwd, tmp_path),
            clock=FakeClock(),
            tell=lambda approval: None,
            shell=ShellCommandPolicy,
            approver=ask,
        )
        seen, modes, todos = child_environment(os.environ), CurrentMode(), Todos()
        setup = ToolSetup(
            cwd=cwd,
            gate=gate,
            conversation=conversation,
            environ=seen,
            sandbox=None,
            modes=modes,
            todos=todos,
            history=FileHistory(tmp_path / "history"),
            more=more,
        )
        toolkit = await load_session_tools(setup)
        return {tool.name: tool for tool in toolkit.tools}, toolkit.notices

    return open_kit


async def test_the_order_of_tools_is_fixed_and_the_users_come_last(open_kit, own):
    """RA-4: the built-in ones stay cached, whatever files are added; without their folder there is no notice."""
    (own / "mine.py").write_text('def mine(text: str) -> str:\n    """Say it."""\n    return text\n')
    tools, notices = await open_kit(more=[ECHO])
    assert list(tools)[:2] == ["read_file", "write_file"]
    assert list(tools)[-3:] == ["switch_mode", "echo", "mine"]
    assert notices == ()
    own.rename(own.with_name("gone"))
    tools, notices = await open_kit()
    assert (list(tools)[-1], notices) == ("switch_mode", ())


async def test_a_users_tool_cannot_take_an_existing_name(open_kit, own):
    (own / "mine.py").write_text('def echo(text: str) -> str:\n    """Say it."""\n    return "mine"\n')
    tools, notices = await open_kit(more=[ECHO])
    assert (await tools["echo"].run({"text": "a"})).content == "<a>"
    assert "already a tool `echo`" in notices[0]


async def test_tool_files_are_loaded_concurrently(open_kit, own):
    """The start of a session takes as long as its slowest file, not as all of them together."""
    (own / "left.py").write_text(WAITS.format(mine="left", other="right"))
    (own / "right.py").write_text(WAITS.format(mine="right", other="left"))
    tools, notices = await open_kit()
    assert (notices, list(tools)[-2:]) == ((), ["left", "right"])


async def test_long_output_can_be_read_where_it_is_stored(open_kit):
    """RA-4: whole on disk, and readable by the tools."""
    tools, _ = await open_kit()
    output = await tools["shell"].run({"command": "seq 1 30000"})
    place = re.search(r"/\S+outputs/\S+", output.content)
    assert place is not None
    found = await tools["search_files"].run({"pattern": "^15000$", "path": place[0].rstrip(")")})
    assert "15000" in found.content


async def test_a_cached_result_is_not_given_to_a_call_that_is_denied(open_kit, tmp_path):
    """RA-13, RA-19: the gate decides each call; the cache comes after it."""
    (tmp_path / "work" / "a").write_text("secret")
    answers = ["allow", "deny"]

    async def ask(question):
        return answers.pop(0)

    tools, _ = await open_kit(RuleSet(categories={"file_read": "ask"}), ask=ask)
    assert "secret" in (await tools["read_file"].run({"path": "a"})).content
    assert (await tools["read_file"].run({"path": "a"})).content.startswith("Denied: ")


async def test_each_tool_of_a_session_passes_the_gate(open_kit):
    """RA-13: with everything denied none of them runs."""
    categories = ["file_read", "file_write", "shell", "network", "memory", "python"]
    tools, _ = await open_kit(RuleSet(categories=dict.fromkeys(categories, "deny")))
    for tool in tools.values():
        output = await tool.run({"path": "a", "command": "true", "url": "http://x"})
        assert output.content.startswith("Denied: "), tool.name


async def test_outputs_of_one_conversation_cannot_be_read_by_another(open_kit):
    """RA-4: but a session reads those of its subagents."""
    (child, _), (parent, _), (other, _) = [
        await open_kit(conversation=each) for each in ("mine/sub-1", "mine", "other")
    ]
    place = re.search(r"/\S+outputs/mine/sub-1/\S+", (await child["shell"].run({"command": "seq 1 30000"})).content)
    assert place is not None
    reads = [await each["read_file"].run({"path": place[0]}) for each in (child, parent, other)]
    assert [each.failed for each in reads] == [False, False, True]


async def test_old_outputs_are_removed_at_the_start(open_kit, tmp_path):
    """RA-4."""
    old = tmp_path / "home" / "cache" / "outputs" / "old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    await open_kit()
    assert not old.exists()
