"""What happens in a session, as updates of the Agent Client Protocol."""

import asyncio
import json
from pathlib import Path

import pytest
from acp.exceptions import RequestError
from acp.schema import (
    AcpMcpServer,
    AllowedOutcome,
    AudioContentBlock,
    DeniedOutcome,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    RequestPermissionResponse,
    ResourceContentBlock,
    SseMcpServer,
)
from inline_snapshot import snapshot

from scaffold.acp.agent import GivenServers, given_servers
from scaffold.acp.editor_session import answer_of, permission_options
from scaffold.acp.prompt_content import read_prompt
from scaffold.acp.session_updates import SessionUpdates, replayed
from scaffold.acp.tool_calls import ToolCalls, call_kind, call_locations, call_title
from scaffold.agent.context.conversation_window import Conversation
from scaffold.core.conversation import (
    AssistantMessage,
    StreamReset,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.policy.secret.redaction import Redactor

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** Delete File: c.py\n*** End Patch"


def watched(root, redactor=None):
    """Return the calls of a session in `root`, and the updates they post."""
    posted = []
    return ToolCalls(posted.append, root, SystemClock(), redactor or Redactor(), lambda: None), posted


def writer(root):
    async def run(args):
        (root / args["path"]).write_text(args["content"])
        return ToolOutput("written")

    return Tool(name="write_file", description="", schema={}, category="file_write", run=run)


def test_a_call_is_shown_by_what_it_does():
    rows = [
        ("shell", {"command": "make\ntest"}, "execute", "make (+1 line)", []),
        ("read_file", {"path": "a.py", "start_line": 3}, "read", "read_file a.py", ["/w/a.py"]),
        ("apply_patch", {"input": PATCH}, "edit", "apply_patch a.py, c.py", ["/w/a.py", "/w/c.py"]),
        ("apply_patch", {"input": "no patch"}, "edit", "apply_patch", []),
        ("web_fetch", {"url": "https://x.org"}, "fetch", "web_fetch https://x.org", []),
        ("mcp_docs_search", {"query": "x"}, "other", "mcp_docs_search x", []),
        ("read_file", {"path": 3}, "read", "read_file 3", []),
    ]
    shown = [
        (
            name,
            args,
            call_kind(name),
            call_title(name, args),
            [each.path for each in call_locations(Path("/w"), name, args)],
        )
        for name, args, *_ in rows
    ]
    assert shown == rows


async def test_the_change_that_a_call_made_is_its_content(tmp_path):
    calls, posted = watched(tmp_path)
    args = {"path": "a.txt", "content": "two\n"}
    (tmp_path / "a.txt").write_text("one\n")
    calls.announce("7", "write_file", args)
    await calls.watch(writer(tmp_path)).run(args)
    calls.result("7", "written", failed=False)
    assert [update.status for update in posted] == ["pending", "in_progress", "completed"]
    [diff] = posted[-1].content
    assert (diff.old_text, diff.new_text) == ("one\n", "two\n")


async def test_a_change_of_a_file_with_secrets_is_not_shown(tmp_path):
    calls, posted = watched(tmp_path, Redactor({"TOKEN": "correcthorsebattery"}))
    args = {"path": "a.txt", "content": "TOKEN=correcthorsebattery\n"}
    calls.announce("7", "write_file", args)
    await calls.watch(writer(tmp_path)).run(args)
    assert "correcthorse" not in str(posted[-1])
    assert posted[-1].content[0].content.text == snapshot(
        "a.txt was changed; the change is hidden, because the file contains secrets"
    )


async def test_calls_that_a_cancelled_turn_leaves_open_end_as_failed(tmp_path):
    async def wait(_args):
        await asyncio.Event().wait()

    calls, posted = watched(tmp_path)
    tool = Tool(name="shell", description="", schema={}, category="shell", run=wait)
    for number in ("1", "2"):
        calls.announce(number, "shell", {"command": "sleep"})
    task = asyncio.ensure_future(calls.watch(tool).run({"command": "sleep"}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    calls.end_turn()
    assert [(update.tool_call_id, update.status) for update in posted[-2:]] == [("1", "failed"), ("2", "failed")]


def test_replies_in_a_row_are_apart_and_a_broken_one_is_said_to_be_discarded(tmp_path):
    calls, posted = watched(tmp_path)
    updates = SessionUpdates(posted.append, calls)
    updates.on_delta(TextDelta("one"))
    updates.note("text", text="one")
    updates.note("usage")
    updates.on_delta(TextDelta("tw"))
    updates.on_delta(StreamReset("the line broke"))
    updates.note("text", text="two")
    updates.note("tool_call", id="1", name="shell", args={})
    updates.note("usage")
    updates.on_delta(TextDelta("three"))
    said = [update.content.text for update in posted if update.session_update == "agent_message_chunk"]
    assert said[:2] == ["one", "\n\ntw"]
    assert "is discarded" in said[2]
    assert said[3:] == ["two", "three"]


def test_a_stored_conversation_is_shown_again_without_secrets():
    conversation = Conversation(
        [
            UserMessage((Text("hello"),)),
            AssistantMessage((Thinking("hm"), Text("hi"), ToolCall("1", "shell", {"command": "x"}))),
            UserMessage((ToolResult("1", "shell", "correcthorsebattery", failed=True),)),
            AssistantMessage((ToolCall("2", "shell", {"command": "y"}),)),
        ],
        summary="earlier",
    )
    shown = list(replayed(conversation, Path("/w"), Redactor({"TOKEN": "correcthorsebattery"})))
    assert [update.session_update for update in shown] == [
        *("agent_thought_chunk", "user_message_chunk", "agent_thought_chunk", "agent_message_chunk"),
        *("tool_call", "tool_call_update", "tool_call", "tool_call_update"),
    ]
    assert [update.status for update in shown[-4:]] == ["pending", "failed", "pending", "failed"]
    assert "correcthorse" not in str(shown)


def asked(option):
    outcome = (
        DeniedOutcome(outcome="cancelled") if option is None else AllowedOutcome(outcome="selected", option_id=option)
    )
    return RequestPermissionResponse(outcome=outcome)


def test_only_an_answer_that_was_offered_allows():
    """BX-19: whatever else an editor says denies."""
    question = ApprovalQuestion(tool="shell", category="shell", subject="x", always="shell:x *")
    once = ApprovalQuestion(tool="shell", category="shell", subject="x", always=None)
    assert [option.kind for option in permission_options(once)] == ["allow_once", "reject_once"]
    assert "shell:x *" in permission_options(question)[1].name
    answers = {option: answer_of(asked(option), question) for option in ("allow", "always", "deny", "other", None)}
    assert answers == {"allow": "allow", "always": "always", "deny": "deny", "other": "deny", None: "deny"}
    assert answer_of(asked("always"), once) == "deny"
    change = ApprovalQuestion(tool="edit", category="file_write", subject="a", always="file_write:a", edits=True)
    assert [option.name for option in permission_options(change)][1:3] == [
        "Allow any change of a in this session",
        "Allow all edits in this folder in this session",
    ]
    assert (answer_of(asked("edits"), change), answer_of(asked("edits"), once)) == ("edits", "deny")


def test_servers_of_an_editor_become_a_file_of_servers():
    given = given_servers(
        [
            McpServerStdio(name="a b", command="x", args=["-y"], env=[EnvVariable(name="K", value="v")]),
            HttpMcpServer(type="http", name="web", url="https://x.org", headers=[HttpHeader(name="A", value="b")]),
            SseMcpServer(type="sse", name="a_b", url="https://y.org", headers=[]),
            AcpMcpServer(type="acp", name="inner", server_id="1"),
        ]
    )
    [file] = given.files
    assert json.loads(file.content)["mcpServers"] == {
        "a-b": {"command": "x", "args": ["-y"], "env": {"K": "v"}},
        "web": {"type": "http", "url": "https://x.org", "headers": {"A": "b"}},
    }
    assert [note.partition(" is not")[0] for note in given.notes] == ["the MCP server a_b", "the MCP server inner"]
    assert given_servers([]) == GivenServers()


def test_links_name_files_and_what_is_not_taken_is_refused():
    link = ResourceContentBlock(type="resource_link", name="x", uri="file:///w/a%20b.md")
    web = ResourceContentBlock(type="resource_link", name="x", uri="https://x.org/a")
    assert read_prompt([link, web], images=True).words == '@"/w/a b.md" https://x.org/a'
    image = ImageContentBlock(type="image", data="aGk=", mime_type="image/png")
    assert read_prompt([image], images=True).images[0].data == b"hi"
    sound = AudioContentBlock(type="audio", data="aGk=", mime_type="audio/wav")
    broken = ImageContentBlock(type="image", data="%", mime_type="image/png")
    for block, images in ((image, False), (sound, True), (broken, True)):
        with pytest.raises(RequestError):
            read_prompt([block], images=images)
