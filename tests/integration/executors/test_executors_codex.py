"""A turn of codex, as its app server speaks: what is sent to it, what is read from it."""

import asyncio
import json

import pytest

from scaffold.core.model import Usage
from scaffold.executors.codex import CodexProtocol
from scaffold.executors.port import (
    EndedTool,
    Noticed,
    PermissionAnswer,
    ReportedUsage,
    SaidText,
    StartedTool,
    ToolServer,
)
from support.turn_listeners import Answers, NeverAnswers

HANDSHAKE = """\
> {"id":1,"method":"initialize"}
< {"id":1,"result":{"userAgent":"scaffold/0.171.0"}}
> {"method":"initialized"}
"""
THREAD = """\
> {"id":2,"method":"thread/start"}
< {"id":2,"result":{"thread":{"id":"id1"},"model":"gpt-5.5"}}
"""
TURN = """\
> {"id":3,"method":"turn/start","params":{"threadId":"id1"}}
< {"id":3,"result":{"turn":{"id":"turn1","status":"inProgress"}}}
"""
START = HANDSHAKE + THREAD + TURN
DONE = '< {"method":"turn/completed","params":{"threadId":"id1","turn":{"id":"turn1","status":"completed"}}}\n'
COMMAND = {"type": "commandExecution", "id": "call1", "command": "make test", "cwd": "/work", "status": "inProgress"}


def tell(method, **params):
    """Return the step that tells something of the turn."""
    return f"< {json.dumps({'method': method, 'params': {'threadId': 'id1', 'turnId': 'turn1'} | params})}\n"


def ask(method, number=0, **params):
    """Return the step that asks something."""
    params = {"threadId": "id1", "turnId": "turn1", "itemId": "call1"} | params
    return f"< {json.dumps({'id': number, 'method': method, 'params': params})}\n"


def expect(number, **result):
    """Return the step that waits for an answer."""
    return f"> {json.dumps({'id': number, 'result': result})}\n"


def usage(total, last, **params):
    """Return the step that reports the tokens of a thread, and of its last request."""
    tokens = [{"inputTokens": given, "cachedInputTokens": 5, "outputTokens": said} for given, said in (total, last)]
    return tell("thread/tokenUsage/updated", tokenUsage={"total": tokens[0], "last": tokens[1]}, **params)


async def test_a_command_is_asked_about_as_it_runs_and_numbers_of_both_sides_do_not_meet(play):
    """BX-19: its question has the number of our own request that has no answer yet."""
    early = (
        '> {"id":3,"method":"turn/start"}\n'
        + tell("item/started", item=COMMAND)
        + ask("item/commandExecution/requestApproval", 3, command="make test", cwd="/work", reason="it is not trusted")
        + expect(3, decision="accept")
        + '< {"id":3,"result":{"turn":{"id":"turn1"}}}\n'
    )
    ended = tell("item/completed", item=COMMAND | {"status": "completed", "exitCode": 2, "aggregatedOutput": "no rule"})
    answers = Answers(allowed=True)
    end = await play(CodexProtocol(), HANDSHAKE + THREAD + early + ended + DONE, answers)
    [question] = answers.asked
    assert (question.id, question.tool, question.category) == ("call1", "commandExecution", "shell")
    assert (question.title, question.reason) == ("make test", "it is not trusted")
    assert question.args == {"command": "make test", "cwd": "/work"}
    assert StartedTool("call1", "commandExecution", {"command": "make test", "cwd": "/work"}) in answers.heard
    assert EndedTool("call1", "no rule", failed=True) in answers.heard
    assert (end.failure, end.denied, end.model) == (None, (), "gpt-5.5")


CHANGES = [
    {"path": "/work/calc.py", "kind": {"type": "update", "move_path": "/work/sum.py"}, "diff": "@@ -1 +1 @@"},
    {"path": "/work/setup.cfg", "kind": {"type": "add"}, "diff": "+x"},
]


async def test_each_file_of_a_change_is_asked_about_and_one_denial_denies_all(play):
    """BX-19: also where a file moves to, and the folder that it wants to write from then on."""

    class NotTheFolder(Answers):
        async def permit(self, question, /):
            return PermissionAnswer((await super().permit(question)).allowed and question.args["path"] != "/etc")

    stream = (
        START
        + tell("item/started", item={"type": "fileChange", "id": "call1", "changes": []})
        + tell("item/fileChange/patchUpdated", itemId="call1", changes=CHANGES)
        + ask("item/fileChange/requestApproval", grantRoot="/etc")
        + expect(0, decision="decline")
        + DONE
    )
    answers = NotTheFolder(allowed=True)
    end = await play(CodexProtocol(), stream, answers)
    asked = [question.args["path"] for question in answers.asked]
    assert asked == ["/work/calc.py", "/work/setup.cfg", "/work/sum.py", "/etc"]
    assert {question.category for question in answers.asked} == {"file_write"}
    assert answers.asked[0].args["diff"] == "@@ -1 +1 @@"
    assert end.denied == ("fileChange",)


@pytest.mark.parametrize(
    "params",
    [
        {"networkApprovalContext": {"host": "example.com", "protocol": "https"}},
        {"kind": "writeStdin", "command": "rm -r ."},
        {"kind": "what a later version asks", "command": "make"},
        {},
    ],
)
async def test_what_is_not_plainly_a_command_counts_as_the_most_careful_category(play, params):
    answers = Answers()
    stream = START + ask("item/commandExecution/requestApproval", **params) + expect(0, decision="decline") + DONE
    await play(CodexProtocol(), stream, answers)
    [question] = answers.asked
    assert question.category == "network"
    assert question.args == params


async def test_a_tool_of_an_mcp_server_is_asked_about_with_its_arguments(play):
    """BX-19: codex asks about those of the user's own servers as a server would ask for input."""
    call = {"codex_approval_kind": "mcp_tool_call", "tool_name": "send", "tool_params": {"to": "all"}}
    stream = ask("mcpServer/elicitation/request", serverName="mail", message="Allow it?", _meta=call)
    answers = Answers(allowed=True)
    await play(CodexProtocol(), START + stream + expect(0, action="accept") + DONE, answers)
    [question] = answers.asked
    assert (question.tool, question.title, question.category) == ("mail.send", "Allow it?", "mcp")
    assert question.args == {"to": "all"}
    denied = await play(CodexProtocol(), START + stream + expect(0, action="decline") + DONE, Answers())
    assert denied.denied == ("mail.send",)


async def test_wider_permissions_and_questions_of_servers_are_declined_without_anyone_being_asked(play):
    answers = Answers(allowed=True)
    stream = (
        START
        + ask("item/permissions/requestApproval", permissions={"network": {"enabled": True}}, reason="to install")
        + expect(0, permissions={})
        + ask("mcpServer/elicitation/request", 1, serverName="x", message="Your name?")
        + expect(1, action="decline")
        + DONE
    )
    await play(CodexProtocol(), stream, answers)
    assert answers.asked == []
    told = [event.text for event in answers.heard if isinstance(event, Noticed)]
    assert ["to install" in told[0], "Your name?" in told[1]] == [True, True]


async def test_a_thread_works_in_our_sandbox_asks_us_and_trusts_no_settings_of_the_repository(play, worktree):
    """AL-24, BX-19: it would trust the folder by itself, and remember that."""
    asked = {
        "cwd": str(worktree),
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandbox": "danger-full-access",
        "model": "gpt-5.5",
        "developerInstructions": "Be brief.",
        "config": {
            "projects": {str(worktree): {"trust_level": "untrusted"}},
            "web_search": "disabled",
            "mcp_servers": {"ours": {"command": "tools", "env": {"A": "1"}, "default_tools_approval_mode": "approve"}},
        },
    }
    thread = THREAD.replace('"thread/start"', f'"thread/start","params":{json.dumps(asked)}')
    turn = TURN.replace('"threadId":"id1"}}', '"threadId":"id1","outputSchema":{"type":"object"}}}')
    server = ToolServer(name="ours", command=("tools", "serve"), env={"A": "1"})
    more = {"model": "gpt-5.5", "system": "Be brief.", "server": server, "answer_schema": {"type": "object"}}
    end = await play(CodexProtocol(), HANDSHAKE + thread + turn + DONE, Answers(), **more)
    assert end.failure is None


async def test_a_continued_thread_counts_what_this_turn_used_also_in_its_agents(play):
    """AL-20"""
    stream = (
        HANDSHAKE
        + '> {"id":2,"method":"thread/resume","params":{"threadId":"id1","excludeTurns":true}}\n'
        + '< {"id":2,"result":{"thread":{"id":"id1"}}}\n'
        + usage((900, 90), (30, 3), turnId="turn0")
        + TURN
        + usage((1000, 100), (100, 10))
        + usage((1000, 100), (100, 10))
        + usage((1200, 120), (200, 20))
        + usage((50, 5), (50, 5), threadId="id2", turnId="turn9")
        + '< {"method":"turn/completed","params":{"threadId":"id2","turn":{"id":"turn9","status":"completed"}}}\n'
        + tell("item/completed", item={"type": "agentMessage", "id": "m1", "text": "Done."})
        + DONE
    )
    answers = Answers()
    end = await play(CodexProtocol(), stream, answers, session="id1")
    used = Usage(input_tokens=350, cached_input_tokens=10, output_tokens=35, cost_usd=None, requests=3)
    assert end.usage == used
    assert ReportedUsage(used) in answers.heard
    assert SaidText("Done.") in answers.heard
    assert end.text == "Done."


async def test_a_thread_that_is_gone_is_told_apart_and_gets_no_prompt(play, worktree):
    gone = '> {"id":2,"method":"thread/resume"}\n< {"id":2,"error":{"code":-32600,"message":"no rollout found"}}\n'
    end = await play(CodexProtocol(), HANDSHAKE + gone + "> {}\n! write prompted\n! hang\n", Answers(), session="id1")
    assert (end.failure, end.why, end.session) == ("session", "no rollout found", "")
    assert not (worktree / "prompted").exists()


async def test_a_quota_has_the_time_at_which_the_window_that_is_full_opens_again(play):
    limits = {"primary": {"usedPercent": 100, "resetsAt": 1795970000}, "secondary": {"usedPercent": 3, "resetsAt": 9}}
    failed = {
        "id": "turn1",
        "status": "failed",
        "error": {"message": "no more", "codexErrorInfo": "usageLimitExceeded"},
    }
    stream = START + tell("account/rateLimits/updated", rateLimits=limits) + tell("turn/completed", turn=failed)
    end = await play(CodexProtocol(), stream, Answers())
    assert (end.failure, end.why, end.resets_at) == ("quota", "no more", 1795970000.0)


@pytest.mark.parametrize("exits", [None, 1])
async def test_a_turn_whose_commands_all_failed_to_start_does_not_count_as_done(play, exits):
    """BX-19: inside of a sandbox that is too tight nothing runs, and it completes."""
    failed = COMMAND | {"status": "failed", "exitCode": exits, "aggregatedOutput": "read-only file system"}
    end = await play(CodexProtocol(), START + tell("item/completed", item=failed) + DONE, Answers())
    assert end.failure == ("program" if exits is None else None)
    assert ("none of its 1 commands could be started: read-only" in end.why) == (exits is None)


INTERRUPTED = (
    expect(0, decision="decline")
    + '> {"method":"turn/interrupt","params":{"threadId":"id1","turnId":"turn1"}}\n< {"id":4,"result":{}}\n'
    + "! write interrupted\n"
    + tell("turn/completed", turn={"id": "turn1", "status": "interrupted"})
    + "! hang\n"
)


async def test_a_turn_that_is_cut_off_denies_the_open_question_and_is_interrupted(play, worktree):
    """AL-20"""
    answers = NeverAnswers()
    stream = START + ask("item/commandExecution/requestApproval", command="make") + INTERRUPTED
    turn = asyncio.create_task(play(CodexProtocol(), stream, answers))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (worktree / "interrupted").exists()


async def test_a_question_that_comes_after_the_cut_is_denied_and_nobody_is_asked(play, worktree):
    late = ask("item/commandExecution/requestApproval", 1, command="make install") + expect(1, decision="decline")
    answers = NeverAnswers()
    stream = START + ask("item/commandExecution/requestApproval", command="make") + expect(0, decision="decline") + late
    ended = '! write denied\n< {"id":4,"result":{}}\n' + tell("turn/completed", turn={"id": "turn1"})
    turn = asyncio.create_task(play(CodexProtocol(), stream + ended, answers))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (worktree / "denied").exists()
    assert [question.title for question in answers.asked] == ["make"]


async def test_a_turn_that_ended_by_itself_refuses_to_be_interrupted_and_that_is_no_matter(play):
    refused = (
        expect(0, decision="decline") + '> {"method":"turn/interrupt"}\n< {"id":4,"error":{"code":-32600}}\n! hang\n'
    )
    answers = NeverAnswers()
    stream = START + ask("item/commandExecution/requestApproval", command="make") + refused
    turn = asyncio.create_task(play(CodexProtocol(), stream, answers))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_what_a_listener_raises_denies_its_question_and_is_raised_from_the_turn(play, worktree):
    class NeedsAHuman(Answers):
        async def permit(self, question, /):
            raise LookupError(question.title)

    stream = START + ask("item/commandExecution/requestApproval", command="make") + INTERRUPTED
    with pytest.raises(LookupError, match="make"):
        await play(CodexProtocol(), stream, NeedsAHuman())
    assert (worktree / "interrupted").exists()


async def test_a_question_is_withdrawn_when_the_program_does_not_wait_any_more(play):
    answers = NeverAnswers()
    stream = (
        START
        + ask("item/commandExecution/requestApproval", command="make")
        + tell("serverRequest/resolved", requestId=0)
    )
    end = await play(CodexProtocol(), stream + DONE, answers)
    assert end.failure is None
    assert not answers.asked or answers.is_withdrawn.is_set()


async def test_a_second_question_with_the_number_of_an_open_one_is_refused(play):
    """Else one answer would be given to both."""
    question = ask("item/commandExecution/requestApproval", command="make")
    refused = '> {"id":0,"error":{"code":-32600}}\n'
    end = await play(CodexProtocol(), START + question + question + refused + DONE, NeverAnswers())
    assert end.failure is None
