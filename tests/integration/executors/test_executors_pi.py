"""A turn of pi, as it speaks: what is sent to it, what is read from it."""

import asyncio

import pytest

from scaffold.core.model import Usage
from scaffold.executors.pi import Pi
from scaffold.executors.port import EndedTool, Noticed, ProgramTurn, SaidText, StartedTool
from support.turn_listeners import Answers

START = """\
> {"type":"get_state","id":"state"}
< {"type":"response","id":"state","success":true,"data":{"sessionId":"id1","messageCount":2}}
> {"type":"prompt","message":"Fix calc.py"}
< {"type":"response","id":"prompt","success":true,"data":{"disposition":"started"}}
"""
SETTLED = '< {"type":"agent_settled","aborted":false}\n'
ABORTED = '< {"type":"response","id":"abort","success":true}\n'


def arguments(**fields):
    """Return the arguments of a turn with these fields."""
    return " ".join(Pi().arguments(ProgramTurn(**{"prompt": "Fix it", "folder": "/work"} | fields)))


def reply(text, cost, *, output=10, stop="stop", error=""):
    """Return the event of a whole message of the model."""
    usage = f'{{"input":5,"output":{output},"cacheRead":100,"cacheWrite":20,"cost":{{"total":{cost}}}}}'
    content = f'[{{"type":"thinking","thinking":"Hm"}},{{"type":"text","text":"{text}"}}]'
    return (
        f'< {{"type":"message_end","message":{{"role":"assistant","content":{content},"model":"m","usage":{usage},'
        f'"stopReason":"{stop}","errorMessage":"{error}"}}}}\n'
    )


async def test_each_turn_says_that_nothing_is_asked_for(play):
    """BX-19"""
    answers = Answers()
    await play(Pi(), START + SETTLED, answers)
    assert Noticed("pi asks for no permission: only its sandbox limits what it does") in answers.heard


async def test_what_it_says_and_does_is_told_and_each_message_is_paid_once(play):
    stream = """\
< {"type":"message_update","usage":{"output":3},"assistantMessageEvent":{"type":"thinking_delta","delta":"Hm"}}
< {"type":"message_update","usage":{"output":9},"assistantMessageEvent":{"type":"text_delta","delta":"Look"}}
< {"type":"message_end","message":{"role":"user","content":"Fix calc.py"}}
< {"type":"tool_execution_start","toolCallId":"call1","toolName":"bash","args":{"command":"make test"}}
< {"type":"tool_execution_end","toolCallId":"call1","toolName":"bash",\
"result":{"content":[{"type":"text","text":"1"}]},"isError":true}
"""
    answers = Answers()
    end = await play(Pi(), START + stream + reply("Look", 0.25) + reply("Done.", 0.5) + SETTLED, answers)
    assert [event for event in answers.heard if isinstance(event, SaidText | StartedTool | EndedTool)] == [
        SaidText("Hm", is_thinking=True),
        SaidText("Look"),
        StartedTool("call1", "bash", {"command": "make test"}),
        EndedTool("call1", "1", failed=True),
    ]
    assert (end.text, end.model, end.failure) == ("Done.", "m", None)
    assert end.usage == Usage(
        input_tokens=250, cached_input_tokens=200, cache_write_tokens=40, output_tokens=20, cost_usd=0.75, requests=2
    )


async def test_a_model_without_a_price_has_an_unknown_cost(play):
    end = await play(Pi(), START + reply("Done.", 0) + SETTLED, Answers())
    assert end.usage is not None
    assert end.usage.cost_usd is None


async def test_a_retry_that_succeeds_is_no_failure(play):
    failed = reply("", 0, stop="error", error="529 overloaded") + '< {"type":"auto_retry_start","delayMs":1}\n'
    end = await play(Pi(), START + failed + reply("Done.", 0.5) + SETTLED, Answers())
    assert end.failure is None


async def test_a_conversation_that_is_gone_is_not_begun_anew(play):
    gone = START.replace('"messageCount":2', '"messageCount":0').split("> ", 2)[1]
    end = await play(Pi(), f"> {gone}! hang\n", Answers(), session="id1")
    assert end.failure == "session"


async def test_a_prompt_that_it_refuses_ends_the_turn_with_its_reason(play):
    refused = START.replace('"success":true,"data":{"disposition"', '"success":false,"error":"No model","data":{"x"')
    end = await play(Pi(), refused, Answers())
    assert (end.failure, end.why) == ("program", "No model")


async def test_a_turn_that_is_cut_short_is_aborted(play, worktree):
    busy = '< {"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"Look"}}\n'
    stream = busy + '> {"type":"abort"}\n! write aborted.txt\n' + SETTLED + ABORTED + "! hang\n"
    answers = Answers()
    turn = asyncio.create_task(play(Pi(), START + stream, answers))
    await answers.told[SaidText].wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (worktree / "aborted.txt").exists()


def test_it_gets_nothing_but_its_own_tools_and_no_settings_of_the_repository():
    assert arguments() == (
        "--mode rpc --no-extensions --no-skills --no-prompt-templates --no-mcp --no-approve --no-context-files"
    )


def test_options_of_a_turn_are_passed_on():
    line = arguments(mode="read", session="id1", model="anthropic/opus", system="Be brief", trusted=True)
    assert line.endswith(
        "--approve --tools read,grep,find,ls --session-id id1 --model anthropic/opus --append-system-prompt Be brief"
    )
