"""`ralph acp` in an editor: sessions, permissions, diffs, cancelling, and what editors do wrong."""

import asyncio
import os
import signal

import pytest
from acp.exceptions import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    EnvVariable,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from support.editor import RawEditor, editor_of, start_agent
from support.mcp_servers import place_server
from support.scenario import PATIENCE_S, wait_until, write


def reply(turn, text="", calls=(), **more):
    """Return the entry for the agent's request of this number in the conversation of this process."""
    said = {"text": text} if text else {}
    return {"when": {"role": "agent", "turn": turn}, **said, **({"tool_calls": list(calls)} if calls else {}), **more}


TODOS = {
    "name": "TodoWrite",
    "args": {"action": "set", "todos": [{"content": "write it", "status": "in_progress", "priority": "high"}]},
}
SESSION = [
    reply(1, "I look first.", [{"name": "read_file", "args": {"path": "README.md"}}, TODOS], thinking="Hm."),
    reply(2, calls=[write("new.txt", "one\n")]),
    reply(3, "Done."),
    reply(4, calls=[{"name": "shell", "args": {"command": "touch out/never"}}]),
]
RESUMED = [reply(1, "I go on.")]


@pytest.mark.slow
async def test_an_editor_session_from_prompt_to_resume_after_a_kill(scenario):
    """BX-19: prompt, permission, diff, plan, cancel, then kill -9 of the agent and resume in a new one."""
    async with editor_of(scenario, SESSION) as (editor, process):
        session = (await editor.new_session(scenario.repo)).session_id
        editor.answers = ["allow"]
        done = await editor.say(session, "write new.txt")
        assert done.stop_reason == "end_turn"
        assert (scenario.repo / "new.txt").read_text() == "one\n"
        assert (editor.text, editor.thoughts) == ("I look first.Done.", "Hm.")
        [[entry]] = [plan.entries for plan in editor.of("plan")]
        assert (entry.content, entry.status, entry.priority) == ("write it", "in_progress", "high")
        read, todo, wrote = editor.of("tool_call")
        assert [call.kind for call in (read, todo, wrote)] == ["read", "think", "edit"]
        assert read.locations[0].path == str(scenario.repo / "README.md")
        assert [each.status for each in editor.call(wrote.tool_call_id)] == ["pending", "in_progress", "completed"]
        [(_, asked, options)] = editor.questions
        assert asked.tool_call_id == wrote.tool_call_id
        assert [option.kind for option in options] == ["allow_once", "allow_always", "allow_always", "reject_once"]
        for shown in (asked.content[0], editor.call(wrote.tool_call_id)[-1].content[0]):
            assert (shown.path, shown.old_text, shown.new_text) == (str(scenario.repo / "new.txt"), "", "one\n")

        editor.answers, editor.asked = [None], asyncio.Event()
        turn = asyncio.ensure_future(editor.say(session, "now a command"))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        await editor.agent.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, PATIENCE_S)).stop_reason == "cancelled"
        command = editor.of("tool_call")[-1]
        assert (command.kind, command.title) == ("execute", "touch out/never")
        assert editor.call(command.tool_call_id)[-1].status == "failed"
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    async with editor_of(scenario, RESUMED) as (editor, _):
        listed = (await editor.agent.list_sessions(cwd=str(scenario.repo))).sessions
        assert [(each.session_id, each.title) for each in listed] == [(session, "write new.txt")]
        await editor.agent.load_session(cwd=str(scenario.repo), session_id=session, mcp_servers=[])
        assert [each.content.text for each in editor.of("user_message_chunk")] == ["write new.txt", "now a command"]
        assert "I look first.Done." in editor.text
        assert [each.status for each in editor.call(command.tool_call_id)] == ["pending", "failed"]
        assert (await editor.say(session, "go on")).stop_reason == "end_turn"
        assert editor.text.endswith("I go on.")
    assert not (scenario.out / "never").exists()
    assert editor.errors == ""


HELLO = [reply(1, "Hello."), reply(2, "Again.")]


async def refused(awaitable):
    """Return the code and the message of the protocol error that an awaitable raises."""
    with pytest.raises(RequestError) as caught:
        await awaitable
    return caught.value.code, str(caught.value)


@pytest.mark.slow
async def test_an_editor_that_sends_rubbish_gets_protocol_errors(scenario):
    """BX-19: no JSON, no object, long lines, wrong ids and unknown methods are answered; the agent works on."""
    process = await start_agent(scenario, "--model", "cassette:nothing.yaml")
    raw = RawEditor(process)
    for line, code in (
        (b"{nonsense", -32700),
        (b"[" * 100_000, -32700),
        (b"\xff\xfe", -32700),
        ([1], -32600),
        ({"id": {"a": 1}, "method": "initialize"}, -32600),
        ({"id": 1, "method": 7}, -32600),
        ({"id": 1}, None),
        ({"id": 99, "result": {}}, None),
        ({"id": 99, "error": "oh"}, -32600),
        ({"id": 2, "method": "no/such"}, -32601),
        ({"id": 3, "method": "session/prompt", "params": {"sessionId": "x", "prompt": 3}}, -32602),
        ({"id": 4, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}}, -32002),
        ({"id": 5, "method": "session/new", "params": {"cwd": "relative", "mcpServers": []}}, -32602),
        ({"id": 6, "method": "session/new", "params": {"cwd": "/tmp\0", "mcpServers": []}}, -32602),
        ({"id": 7, "method": "session/load", "params": {"cwd": "/tmp", "sessionId": "", "mcpServers": []}}, -32002),
        ({"method": "session/cancel", "params": {"sessionId": "x"}}, None),
        ({"method": "session/cancel", "params": "x"}, -32600),
        (b" ", None),
        (b'{"a":"' + b"x" * 50_000_000 + b'"}', -32600),
    ):
        await raw.send(line)
        if code is not None:
            answer = await raw.answer()
            assert answer["error"]["code"] == code, (line[:80] if isinstance(line, bytes) else line, answer)
    await raw.send({"id": "last", "method": "initialize", "params": {"protocolVersion": 1}})
    assert (await raw.answer())["result"]["agentInfo"]["name"] == "ralph"
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    assert await process.stdout.read() == b""
    assert (await process.stderr.read()).decode() == ""


@pytest.mark.slow
async def test_what_cannot_be_done_now_is_an_error_and_the_turn_goes_on(scenario):
    """BX-19: a second prompt, another model in a turn, unknown options, images that a model does not take."""
    replies = [reply(1, calls=[{"name": "shell", "args": {"command": "touch out/a"}}]), reply(2, "Fine.")]
    async with editor_of(scenario, replies) as (editor, _):
        opened = await editor.new_session(scenario.repo)
        session = opened.session_id
        assert [option.id for option in opened.config_options] == ["mode", "model", "effort"]
        assert opened.modes.current_mode_id == "default"
        editor.answers = [None]
        turn = asyncio.ensure_future(editor.say(session, "go"))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        choose = editor.agent.set_config_option
        assert (await refused(editor.say(session, "and this")))[0] == -32600
        assert (await refused(choose(config_id="model", session_id=session, value="openai:gpt-5")))[0] == -32600
        assert (await refused(choose(config_id="colour", session_id=session, value="red")))[0] == -32602
        assert (await refused(editor.agent.set_session_mode(session_id=session, mode_id="x")))[0] == -32602
        await editor.agent.close_session(session_id=session)
        assert (await asyncio.wait_for(turn, PATIENCE_S)).stop_reason == "cancelled"
        assert (await refused(editor.say(session, "closed")))[0] == -32002
        image = ImageContentBlock(type="image", data="bm8=", mime_type="image/tiff")
        again = (await editor.new_session(scenario.repo)).session_id
        assert (await refused(editor.agent.prompt(session_id=again, prompt=[image])))[0] == -32602
        assert (await refused(editor.agent.fork_session(session_id=again, cwd="/tmp")))[0] == -32601
    assert not (scenario.out / "a").exists()


@pytest.mark.slow
async def test_modes_models_and_commands_are_chosen_in_the_editor(scenario):
    """BX-19: the mode and the effort by the editor's choices, or by a command; commands need no model."""
    async with editor_of(scenario, HELLO) as (editor, _):
        session = (await editor.new_session(scenario.repo)).session_id
        await editor.agent.set_session_mode(session_id=session, mode_id="plan")
        chosen = await editor.agent.set_config_option(config_id="effort", session_id=session, value="high")
        assert [option.current_value for option in chosen.config_options][::2] == ["plan", "high"]
        assert (await editor.say(session, "/mode")).stop_reason == "end_turn"
        assert "plan" in editor.text
        await editor.say(session, "/mode review")
        assert editor.of("current_mode_update")[-1].current_mode_id == "review"
        [offered] = editor.of("available_commands_update")
        names = {command.name for command in offered.available_commands}
        assert {"help", "model", "undo"} <= names
        assert not names & {"clear", "resume", "quit"}
        assert (await refused(editor.say(session, "/nonsense")))[0] == -32602


@pytest.mark.slow
async def test_files_that_the_editor_passes_reach_the_agent_without_secrets(scenario):
    """BX-19: an attached text and a linked file are part of the prompt; secrets in them are not."""
    (scenario.repo / "notes.md").write_text("remember the milk")
    seen = [
        {"when": {"role": "agent", "contains": "remember the milk[\\s\\S]*sk-ant-"}, "text": "I see a secret."},
        {"when": {"role": "agent", "contains": "remember the milk[\\s\\S]*unsaved line"}, "text": "I see both."},
    ]
    key = "sk-ant-" + "a1B2" * 10
    async with editor_of(scenario, seen) as (editor, _):
        session = (await editor.new_session(scenario.repo)).session_id
        unsaved = TextResourceContents(uri=(scenario.repo / "draft.md").as_uri(), text=f"unsaved line {key}")
        prompt = [
            TextContentBlock(type="text", text="compare"),
            ResourceContentBlock(type="resource_link", name="notes", uri=(scenario.repo / "notes.md").as_uri()),
            EmbeddedResourceContentBlock(type="resource", resource=unsaved),
        ]
        await editor.agent.prompt(session_id=session, prompt=prompt)
        assert editor.text == "I see both."


@pytest.mark.slow
async def test_deny_stays_deny_and_a_refusal_reaches_the_model(scenario):
    """BX-19: no question is asked about a protected file; what the user denies does not run."""
    replies = [
        reply(1, calls=[write(".env", "A=1")]),
        reply(2, calls=[{"name": "shell", "args": {"command": "touch out/no"}}]),
        reply(3, calls=[{"name": "shell", "args": {"command": "touch out/yes"}}]),
        reply(4, calls=[{"name": "shell", "args": {"command": "touch out/yes"}}]),
        reply(5, "Enough."),
    ]
    async with editor_of(scenario, replies) as (editor, _):
        session = (await editor.new_session(scenario.repo)).session_id
        editor.answers = ["deny", "always"]
        assert (await editor.say(session, "go")).stop_reason == "end_turn"
        ends = [editor.call(call.tool_call_id)[-1].status for call in editor.of("tool_call")]
        assert ends[:2] == ["failed", "failed"]
        assert len(editor.questions) == 2  # the third question was answered for good
    assert not (scenario.repo / ".env").exists()
    assert not (scenario.out / "no").exists()


@pytest.mark.slow
async def test_an_editor_that_dies_leaves_nothing_behind(scenario):
    """BX-19: the agent ends with its editor, in the middle of a turn, too; the conversation can be resumed."""
    replies = [reply(1, "I wait.", [{"name": "shell", "args": {"command": "sleep 300"}}])]
    async with editor_of(scenario, replies, "--yolo") as (editor, process):
        session = (await editor.new_session(scenario.repo)).session_id
        turn = asyncio.ensure_future(editor.say(session, "go"))
        assert await asyncio.to_thread(
            wait_until, lambda: any(call.status == "in_progress" for call in editor.of("tool_call_update")), PATIENCE_S
        )
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        turn.cancel()
    assert editor.errors == ""
    assert scenario.commands() == []
    async with editor_of(scenario, RESUMED) as (editor, _):
        await editor.agent.resume_session(session_id=session, cwd=str(scenario.repo), mcp_servers=[])
        assert editor.of("user_message_chunk") == []
        await editor.say(session, "go on")
        assert editor.text == "I go on."


@pytest.mark.slow
async def test_cancelling_ends_subagents_and_their_questions(scenario):
    """BX-19: a subagent that waits for an answer ends with the turn; the next turn can start others."""
    child = {"name": "shell", "args": {"command": "touch out/never"}}
    start = {"name": "subagent", "args": {"task": "the child's task"}}
    replies = [
        {"when": {"role": "agent", "contains": "the child's task$"}, "tool_calls": [child]},
        reply(1, calls=[start]),
        reply(2, "It works for me."),
        reply(3, "It was cancelled."),
    ]
    async with editor_of(scenario, replies, "--allow-category", "subagent") as (editor, _):
        session = (await editor.new_session(scenario.repo)).session_id
        editor.answers = [None]
        turn = asyncio.ensure_future(editor.say(session, "go"))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        assert editor.questions[0][1].title == "touch out/never"
        await editor.agent.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, PATIENCE_S)).stop_reason == "cancelled"
        assert (await asyncio.wait_for(editor.say(session, "and now?"), PATIENCE_S)).stop_reason == "end_turn"
        assert editor.text.endswith("It was cancelled.")
    assert editor.errors == ""
    assert not (scenario.out / "never").exists()


@pytest.mark.slow
async def test_mcp_servers_of_the_editor_offer_tools_through_our_gate(scenario):
    """BX-19: a server of the editor is started like one of the user's; its calls need approval, its secrets stay."""
    answers = "text(request, 'the word is ' + os.environ['WORD'] + ', the key ' + os.environ['API_TOKEN'])"
    program = place_server(scenario.repo / "servers", "sums", answers)
    values = {"WORD": "swordfish", "API_TOKEN": "correcthorsebattery"}
    variables = [EnvVariable(name=name, value=value) for name, value in values.items()]
    given = [
        McpServerStdio(name="my_sums", command=str(program), args=[], env=variables),
        McpServerStdio(name="gone", command="/no/such/program", args=[], env=[]),
    ]
    replies = [reply(1, calls=[{"name": "mcp_my-sums_add", "args": {"a": 1}}]), reply(2, "Fine.")]
    async with editor_of(scenario, replies) as (editor, _):
        assert editor.initialized.agent_capabilities.mcp_capabilities.http
        session = (await editor.new_session(scenario.repo, mcp_servers=given)).session_id
        editor.answers = ["allow"]
        await editor.say(session, "go")
        [(_, asked, _)] = editor.questions
        assert asked.title.startswith("mcp_my-sums_add")
        said = editor.call(asked.tool_call_id)[-1]
        assert said.status == "completed"
        assert "the word is swordfish" in said.content[0].content.text
        assert "correcthorse" not in said.content[0].content.text
        assert "gone" in editor.notes
    assert editor.errors == ""


def test_a_terminal_or_a_file_is_no_editor(scenario):
    """BX-19: started by hand, the command says who starts it, and exits with 64."""
    done = scenario.scaffold("ralph", "acp", code=64)
    assert "docs/editors.md" in done.stderr
    assert "Traceback" not in done.stderr
