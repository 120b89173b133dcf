"""A turn of Claude Code, as it speaks: what is sent to it, what is read from it."""

import asyncio

import msgspec
import pytest

from scaffold.core.model import Usage
from scaffold.executors.claude import Claude
from scaffold.executors.port import EndedTool, ProgramTurn, ReportedUsage, SaidText, StartedTool, ToolServer, Waits
from support.turn_listeners import Answers, NeverAnswers

HANDSHAKE = """\
> {"type":"control_request","request":{"subtype":"initialize"}}
< {"type":"control_response","response":{"subtype":"success","request_id":"initialize","response":{}}}
"""
PROMPT = """\
> {"type":"user","client_composed":true}
< {"type":"system","subtype":"init","session_id":"id1","model":"claude-opus-5-5","permissionMode":"default"}
"""
QUESTION = """\
< {"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash",\
"input":{"command":"make test"},"description":"Run the tests","decision_reason":"a rule asks","tool_use_id":"call1"}}
"""
RESULT = '< {"type":"result","subtype":"success","is_error":false,"session_id":"id1","result":"Done."}\n'
INTERRUPTED = """\
> {"type":"control_request","request":{"subtype":"interrupt"}}
< {"type":"control_cancel_request","request_id":"q1"}
< {"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"id1",\
"terminal_reason":"aborted_tools","total_cost_usd":0.5,"modelUsage":{"m":{"outputTokens":7}}}
! hang
"""


def arguments(**fields):
    """Return the arguments of a turn with these fields, each option with its value."""
    argv = Claude().arguments(ProgramTurn(**{"prompt": "Fix it", "folder": "/work"} | fields))
    return " ".join(argv), dict(zip(argv, [*argv[1:], ""], strict=True))


async def test_a_question_has_what_the_program_wants_to_do_and_its_permission_is_for_exactly_that(play):
    """BX-19"""
    allowed = (
        '> {"type":"control_response","response":{"request_id":"q1","subtype":"success",'
        '"response":{"behavior":"allow","updatedInput":{"command":"make test"}}}}\n'
    )
    answers = Answers(allowed=True)
    end = await play(Claude(), HANDSHAKE + PROMPT + QUESTION + allowed + RESULT, answers)
    [question] = answers.asked
    assert (question.id, question.tool, question.category) == ("call1", "Bash", "shell")
    assert (question.title, question.reason) == ("Run the tests", "a rule asks")
    assert question.args == {"command": "make test"}
    assert end.text == "Done."
    assert end.denied == ()


async def test_a_denied_call_is_named_whoever_denied_it(play):
    """AL-24: by us, by a rule of the program, or in the list of its result."""
    by_rule = '< {"type":"system","subtype":"permission_denied","tool_name":"Write","tool_use_id":"call2"}\n'
    by_us = '> {"type":"control_response","response":{"response":{"behavior":"deny","message":"not by the rules"}}}\n'
    listed = RESULT.replace('"result":', '"permission_denials":[{"tool_name":"Edit","tool_use_id":"call3"}],"result":')
    end = await play(Claude(), HANDSHAKE + PROMPT + QUESTION + by_us + by_rule + listed, Answers())
    assert end.failure is None
    assert end.denied == ("Bash", "Write", "Edit")


async def test_a_question_is_withdrawn_when_the_program_does_not_wait_any_more(play):
    answers = NeverAnswers()
    end = await play(
        Claude(),
        HANDSHAKE + PROMPT + QUESTION + '< {"type":"control_cancel_request","request_id":"q1"}\n' + RESULT,
        answers,
    )
    assert end.text == "Done."
    assert not answers.asked or answers.is_withdrawn.is_set()


async def test_a_program_that_ends_while_its_question_is_open_ends_the_turn(play):
    answers = NeverAnswers()
    end = await play(Claude(), HANDSHAKE + PROMPT + QUESTION + "! exit 3\n", answers)
    assert end.failure == "program"
    assert "exit code 3" in end.why
    assert end.session == "id1"


async def test_a_turn_that_is_cut_short_is_interrupted_and_says_what_it_has_cost(play):
    answers = NeverAnswers()
    turn = asyncio.create_task(play(Claude(), HANDSHAKE + PROMPT + QUESTION + INTERRUPTED, answers))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert answers.heard[-1] == ReportedUsage(Usage(output_tokens=7, cost_usd=0.5))


async def test_what_the_answering_of_a_question_raises_ends_the_turn(play):
    class Broken(Answers):
        async def permit(self, question, /):
            raise LookupError(question.tool)

    with pytest.raises(LookupError, match="Bash"):
        await play(Claude(), HANDSHAKE + PROMPT + QUESTION + INTERRUPTED, Broken())


async def test_a_question_that_comes_again_takes_the_place_of_the_first(play):
    end = await play(Claude(), HANDSHAKE + PROMPT + QUESTION * 2 + RESULT, NeverAnswers())
    assert end.text == "Done."


async def test_a_prompt_with_a_name_that_is_not_utf_8_is_sent(play):
    sent = PROMPT.replace('"client_composed":true', '"message":{"content":[{"type":"text","text":"Fix ?"}]}')
    end = await play(Claude(), HANDSHAKE + sent + RESULT, Answers(), prompt="Fix \udcff")
    assert end.text == "Done."


@pytest.mark.parametrize("half", ["\\ud83d", "\\udc00"])
async def test_a_message_with_half_a_character_is_read(play, half):
    """JavaScript cuts texts between the two halves: a result that is lost so would never end the turn."""
    end = await play(Claude(), HANDSHAKE + PROMPT + RESULT.replace("Done.", f"Done {half}"), Answers())
    assert end.text == "Done ?"


async def test_a_request_that_we_do_not_know_is_refused_and_not_left_open(play):
    unknown = '< {"type":"control_request","request_id":"q7","request":{"subtype":"new_in_3","tool_name":"x"}}\n'
    refused = '> {"type":"control_response","response":{"request_id":"q7","subtype":"error"}}\n'
    end = await play(Claude(), HANDSHAKE + PROMPT + unknown + refused + RESULT, Answers())
    assert end.failure is None


async def test_usage_is_counted_once_for_each_message_with_its_latest_counts(play):
    """AL-24: events of the provider's interface, as they are and wrapped; a ping and unknown events are passed over."""
    stream = """\
< {"type":"stream_event","event":{"type":"message_start","message":\
{"id":"m1","usage":{"input_tokens":5,"output_tokens":1}}}}
< {"type":"stream_event","event":{"type":"ping"}}
< {"type":"stream_event","event":{"type":"content_block_start","content_block":{"type":"text","text":""}}}
< {"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"Look"}}}
< {"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Look"}],"usage":{"output_tokens":1}}}
< {"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":20}}}
< {"type":"message_start","message":\
{"id":"m2","usage":{"input_tokens":6,"cache_read_input_tokens":100,"output_tokens":1}}}
< {"type":"content_block_start","content_block":{"type":"server_tool_use","id":"call1","name":"web_search"}}
< {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\\"query\\":"}}
< {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"\\"x\\"}"}}
< {"type":"content_block_stop"}
< {"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}
< {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"Hm"}}
< {"type":"content_block_stop"}
< {"type":"message_delta","usage":{"output_tokens":30}}
< {"type":"user","message":{"content":\
[{"type":"tool_result","tool_use_id":"call1","content":[{"type":"text","text":"y"}]}]}}
< {"type":"message_stop"}
"""
    answers = Answers()
    end = await play(Claude(), HANDSHAKE + PROMPT + stream + "! exit 0\n", answers)
    assert end.usage == Usage(input_tokens=111, cached_input_tokens=100, output_tokens=50, cost_usd=None, requests=2)
    assert [event for event in answers.heard if isinstance(event, SaidText | StartedTool | EndedTool)] == [
        SaidText("Look"),
        StartedTool("call1", "web_search", {"query": "x"}),
        SaidText("Hm", is_thinking=True),
        EndedTool("call1", "y"),
    ]


async def test_a_continued_conversation_costs_only_what_this_turn_added(play):
    """AL-24: its totals go on from those of the earlier turns."""
    before = """\
> {"type":"control_request","request":{"subtype":"get_usage"}}
< {"type":"control_response","response":{"subtype":"success","request_id":"usage","response":{"session":\
{"total_cost_usd":0.25,"model_usage":{"m":{"inputTokens":100,"outputTokens":10,"cacheReadInputTokens":40}}}}}}
"""
    total = RESULT.replace(
        '"result":',
        '"total_cost_usd":0.75,"modelUsage":{"m":{"inputTokens":300,"outputTokens":15,"cacheReadInputTokens":50},'
        '"side":{"outputTokens":2}},"result":',
    )
    end = await play(Claude(), HANDSHAKE + before + PROMPT + total, Answers(), session="id1")
    assert end.usage == Usage(input_tokens=210, cached_input_tokens=10, output_tokens=7, cost_usd=0.5)


async def test_a_version_that_does_not_tell_earlier_usage_has_no_cost_instead_of_a_wrong_one(play):
    unknown = """\
> {"type":"control_request","request":{"subtype":"get_usage"}}
< {"type":"control_response","response":{"subtype":"error","request_id":"usage","error":"unknown"}}
"""
    total = RESULT.replace('"result":', '"total_cost_usd":0.75,"modelUsage":{"m":{"outputTokens":15}},"result":')
    end = await play(Claude(), HANDSHAKE + unknown + PROMPT + total, Answers(), session="id1")
    assert end.usage is None


async def test_a_conversation_that_is_gone_is_told_from_a_start_that_fails(play):
    def stream(fields):
        head, _ = HANDSHAKE.split("\n", 1)
        return f'{head}\n< {{"type":"result","is_error":true,"errors":["No."]{fields}}}\n'

    ends = [
        await play(Claude(), stream(fields), Answers(), session=session)
        for fields, session in (("", "id1"), ("", ""), (',"startup_failure_reason":"cli_version_too_old"', "id1"))
    ]
    assert [end.failure for end in ends] == ["session", "program", "program"]
    assert {end.why for end in ends} == {"No."}


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ('"terminal_reason":"budget_exhausted"', "limit"),
        ('"subtype":"error_max_turns"', "limit"),
        ('"terminal_reason":"prompt_too_long","api_error_status":400', "context"),
        ('"api_error_status":403', "login"),
        ('"api_error_status":529', "overloaded"),
        ('"api_error_status":413', "context"),
        ('"subtype":"error_during_execution"', "program"),
    ],
)
async def test_a_failed_result_is_told_apart_by_its_fields(play, fields, failure):
    """AL-24: `is_error` says that it failed, not the subtype."""
    failed = f'< {{"type":"result","is_error":true,"session_id":"id1","result":"It failed",{fields}}}\n'
    end = await play(Claude(), HANDSHAKE + PROMPT + failed, Answers())
    assert (end.failure, end.why) == (failure, "It failed")


async def test_a_mode_in_which_it_asks_less_is_refused(play):
    end = await play(Claude(), HANDSHAKE + PROMPT.replace('"default"', '"auto"') + "! hang\n", Answers())
    assert end.failure == "program"
    assert "mode 'auto'" in end.why


async def test_a_wait_for_the_provider_is_told_with_its_seconds(play):
    retry = '< {"type":"system","subtype":"api_retry","retry_delay_ms":1500,"error_status":null,"error":"overloaded"}\n'
    answers = Answers()
    await play(Claude(), HANDSHAKE + PROMPT + retry + RESULT, answers)
    assert Waits(1.5, "overloaded") in answers.heard


async def test_an_answer_by_a_schema_is_the_text_of_the_turn(play):
    fields = '"initialize","jsonSchema":{"type":"object"},"appendSystemPrompt":"Be brief"'
    asked = HANDSHAKE.replace('"initialize"', fields, 1)
    answer = RESULT.replace('"result":', '"structured_output":{"n":3},"result":')
    schema = {"type": "object"}
    end = await play(Claude(), asked + PROMPT + answer, Answers(), answer_schema=schema, system="Be brief")
    assert msgspec.json.decode(end.text) == {"n": 3}


@pytest.mark.parametrize("kind", ["control_request", "result"])
async def test_a_message_that_cannot_be_passed_over_ends_the_turn_if_it_cannot_be_read(play, kind):
    end = await play(
        Claude(), HANDSHAKE + PROMPT + f'< {{"type":"{kind}","request":7,"result":7}}\n! hang\n', Answers()
    )
    assert end.failure == "program"
    assert f"`{kind}` cannot be read" in end.why


def test_it_gets_no_tool_that_starts_agents_and_no_settings_of_the_repository():
    line, options = arguments()
    assert options["--tools"] == "Bash,Edit,Write,NotebookEdit,Read,Glob,Grep"
    assert options["--setting-sources"] == ""
    assert options["--permission-prompt-tool"] == "stdio"
    assert options["--permission-mode"] == "default"
    assert "--strict-mcp-config" in options
    assert "--resume" not in line


def test_it_asks_about_each_tool_that_it_has_so_that_rules_hold_for_reads_too():
    """AL-24, BX-19"""
    _, options = arguments()
    settings = msgspec.json.decode(options["--settings"])
    assert ",".join(settings["permissions"]["ask"]) == options["--tools"]


def test_a_turn_that_only_reads_gets_no_tool_that_changes_anything():
    assert arguments(mode="read")[1]["--tools"] == "Read,Glob,Grep"


def test_options_of_a_turn_are_passed_on():
    server = ToolServer(name="scaffold", command=("python", "-m", "tools"), env={"A": "1"})
    line, options = arguments(session="-id1", model="opus", budget_usd=0.5, trusted=True, server=server)
    assert "--resume=-id1" in line
    assert "--model=opus" in line
    assert options["--max-budget-usd"] == "0.500000"
    assert options["--setting-sources"] == "project"
    assert options["--allowedTools"] == "mcp__scaffold"
    assert msgspec.json.decode(options["--mcp-config"]) == {
        "mcpServers": {"scaffold": {"type": "stdio", "command": "python", "args": ["-m", "tools"], "env": {"A": "1"}}}
    }
