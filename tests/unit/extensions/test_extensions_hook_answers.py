"""What hooks say, and how our calls look to them."""

import json

from inline_snapshot import snapshot

from scaffold.extensions.hooks.call_translation import hook_calls, our_tools, tool_names
from scaffold.extensions.hooks.hook_answer import MAX_CONTEXT_CHARS, HookAnswer, answer_of, together
from scaffold.host.process.command_runner import CommandResult


def ended(code=0, out="", err="", *, truncated=False):
    return CommandResult(
        exit_code=code,
        signal=None,
        timed_out=False,
        stdout=out if isinstance(out, bytes) else (out if isinstance(out, str) else json.dumps(out)).encode(),
        stderr=err.encode(),
        stdout_sha256="",
        truncated=truncated,
        duration_s=0,
    )


def said(*args, text=False, **kwargs):
    return answer_of(ended(*args, **kwargs), "the hook", text_is_context=text)


def test_exit_code_2_blocks_with_what_is_on_standard_error():
    assert said(2, out='{"decision": "approve"}', err="no\n").blocks == "no"
    assert "without a reason" in said(2).blocks


def test_any_other_exit_code_is_a_line_and_changes_nothing():
    answer = said(1, out='{"decision": "block"}', err="a\nboom")
    assert answer.lines == snapshot(("the hook failed with exit code 1: boom",))
    assert msg_only(answer)


def test_a_permission_comes_with_its_reason_and_input():
    specific = {"permissionDecision": "defer", "permissionDecisionReason": "why", "updatedInput": {"command": "ls"}}
    answer = said(out={"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}})
    assert (answer.permission, answer.reason, answer.updated_input) == ("defer", "why", {"command": "ls"})


def test_an_agent_is_stopped_and_the_user_told():
    answer = said(out={"continue": False, "stopReason": "enough", "systemMessage": "hello\x1b[31m"})
    assert answer.stops == "enough"
    assert "\x1b" not in answer.lines[0]


def test_an_answer_of_the_wrong_shape_is_said_and_changes_nothing():
    outputs = [
        "{",
        "{" * 100_000,
        {"decision": "maybe"},
        {"continue": "no"},
        {"hookSpecificOutput": []},
        {"hookSpecificOutput": {"permissionDecision": 3}},
        {"hookSpecificOutput": {"updatedInput": "ls"}},
    ]
    assert [out for out in outputs if not msg_only(said(out=out))] == []


def msg_only(answer):
    return len(answer.lines) == 1 and answer == HookAnswer(lines=answer.lines)


def test_an_answer_that_is_too_long_has_no_effect():
    assert msg_only(said(out='{"decision": "block"', truncated=True))


def test_text_is_for_the_model_only_where_an_event_says_so():
    assert said(out=" It rains. ", text=True).context == "It rains."
    assert said(out="It rains.").context == ""
    assert len(said(out="x" * 100_000, text=True).context) < MAX_CONTEXT_CHARS + 100


def test_of_several_hooks_the_strictest_decides():
    answers = [HookAnswer(permission=each, reason=each) for each in ("allow", "ask", "deny", "defer")]
    assert together(answers).permission == "deny"
    assert together(answers[:2]).reason == "ask"
    assert together([]).permission is None
    assert together([HookAnswer(context="a"), HookAnswer(context="b", blocks="no")]).blocks == "no"


def test_calls_have_the_names_and_arguments_that_hooks_know():
    rows = [
        ("shell", {"command": "ls", "timeout_s": 5}, "Bash", {"command": "ls", "timeout": 5000}),
        ("write_file", {"path": "a.py", "content": "x"}, "Write", {"file_path": "/p/a.py", "content": "x"}),
        (
            "edit",
            {"path": "/q/a.py", "old": "x", "new": "y", "replace_all": True},
            "Edit",
            {"file_path": "/q/a.py", "old_string": "x", "new_string": "y", "replace_all": True},
        ),
        ("read_file", {"path": "a.py", "start_line": 3}, "Read", {"file_path": "/p/a.py", "offset": 3}),
        ("search_files", {"pattern": "x", "path": "src"}, "Grep", {"pattern": "x", "path": "src"}),
        ("web_fetch", {"url": "https://a.b"}, "WebFetch", {"url": "https://a.b"}),
        ("subagent", {"task": "x", "agent": "r"}, "Task", {"prompt": "x", "subagent_type": "r"}),
        ("mcp_git_log_all", {"a": 1}, "mcp__git__log_all", {"a": 1}),
        ("python", {"code": "1"}, "python", {"code": "1"}),
    ]
    calls = [(tool, args, hook_calls(tool, args, "/p")) for tool, args, *_ in rows]
    assert [(tool, args, call.names[0], dict(call.input)) for tool, args, [call] in calls] == rows
    for tool, _, [call] in calls:
        assert tool in call.names
        assert hook_calls(tool, call.updated(call.input), "/p")[0].input == call.input


def test_each_tool_that_writes_is_one_that_a_hook_for_writing_sees():
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n@@\n-x\n+y\n*** End Patch"
    calls = hook_calls("apply_patch", {"input": patch}, "/p")
    assert [(call.names[0], call.input["file_path"]) for call in calls] == [("Write", "/p/a"), ("Edit", "/p/b")]
    for tool in ("write_file", "append_file", "edit", "apply_delta"):
        assert {"Edit", "Write"} & set(tool_names(tool))


def test_names_of_theirs_choose_tools_of_ours():
    tools = ("shell", "read_file", "edit", "apply_delta", "write_file", "append_file", "apply_patch", "mcp_a_b")
    assert our_tools(["Read", "Bash(git log:*)", "mcp__a__b"], tools) == {"read_file", "shell", "mcp_a_b"}
    assert our_tools(["Edit", "Write"], tools) >= {"edit", "write_file", "apply_patch"}
    assert our_tools(["read_file"], tools) == {"read_file"}
