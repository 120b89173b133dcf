"""A turn of an agent that speaks ACP: what is sent to it, what is read from it."""

import asyncio
import json

import pytest

from scaffold.core.model import Usage
from scaffold.executors.acp import AcpProtocol
from scaffold.executors.catalog import known_programs, protocol_of
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

MODES = {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "yolo"}, {"id": "plan"}]}


def expect(number, method, **params):
    """Return the step that waits for a request of ours."""
    return f"> {json.dumps({'id': number, 'method': method, 'params': params})}\n"


def result(number, **result):
    """Return the step that answers a request of ours."""
    return f"< {json.dumps({'id': number, 'result': result})}\n"


def update(kind, /, **fields):
    """Return the step that tells something of the session."""
    params = {"sessionId": "id1", "update": {"sessionUpdate": kind} | fields}
    return f"< {json.dumps({'method': 'session/update', 'params': params})}\n"


def said(text):
    return update("agent_message_chunk", content={"type": "text", "text": text})


def ask(call, options, number=0):
    """Return the step that asks whether a call may run; the options are pairs of kind and id."""
    offered = [{"kind": kind, "optionId": option} for kind, option in options]
    params = {"sessionId": "id1", "toolCall": call, "options": offered}
    return f"< {json.dumps({'id': number, 'method': 'session/request_permission', 'params': params})}\n"


def answered(outcome, number=0):
    return f"> {json.dumps({'id': number, 'result': {'outcome': outcome}})}\n"


def chosen(option, number=0):
    return answered({"outcome": "selected", "optionId": option}, number)


INITIALIZE = expect(1, "initialize", protocolVersion=1, clientCapabilities={}) + result(1, protocolVersion=1)
CAN_LOAD = INITIALIZE.replace(
    '"protocolVersion": 1}}', '"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}}'
)
NEW = expect(2, "session/new", mcpServers=[]) + result(2, sessionId="id1", modes=MODES)
PROMPT = expect(3, "session/prompt", sessionId="id1")
START = INITIALIZE + NEW + PROMPT
DONE = result(3, stopReason="end_turn")
EDIT = {"toolCallId": "call1", "title": "Edit calc.py", "kind": "edit", "status": "pending"}
BOTH = [("allow_always", "always"), ("allow_once", "once"), ("allow_once", "once-and-switch"), ("reject_once", "no")]


def known():
    """Return the protocol of a program whose modes are known."""
    return AcpProtocol("default", "plan")


async def test_a_permission_is_the_first_option_for_this_one_call_and_its_id_is_told(play):
    """BX-19: qwen offers two of the same kind, the second of which also changes the mode."""
    call = EDIT | {"kind": "execute", "title": "Test it", "rawInput": {"command": "make test"}}
    answers = Answers(allowed=True)
    end = await play(known(), START + ask(call, BOTH) + chosen("once") + said("Done.") + DONE, answers)
    [question] = answers.asked
    assert (question.id, question.tool, question.category) == ("call1", "execute", "shell")
    assert (question.title, question.args) == ("Test it", {"command": "make test"})
    assert any("`once`" in event.text for event in answers.heard if isinstance(event, Noticed))
    assert (end.text, end.denied) == ("Done.", ())


async def test_each_file_of_an_edit_is_asked_about_and_one_denial_denies_all(play):
    """BX-19"""

    class NotTheSettings(Answers):
        async def permit(self, question, /):
            return PermissionAnswer((await super().permit(question)).allowed and question.args["path"] != "setup.cfg")

    diff = {"type": "diff", "path": "setup.cfg", "oldText": "a", "newText": "b"}
    call = EDIT | {"locations": [{"path": "calc.py"}, {"path": "setup.cfg"}], "content": [diff]}
    answers = NotTheSettings(allowed=True)
    end = await play(known(), START + ask(call, BOTH) + chosen("no") + DONE, answers)
    assert [question.args["path"] for question in answers.asked] == ["calc.py", "setup.cfg"]
    assert answers.asked[1].args["newText"] == "b"
    assert end.denied == ("edit",)


@pytest.mark.parametrize("kind", ["fetch", "switch_mode", "other", "brand_new", None])
async def test_a_tool_of_another_kind_counts_as_the_most_careful_category(play, kind):
    answers = Answers()
    await play(known(), START + ask(EDIT | {"kind": kind}, BOTH) + chosen("no") + DONE, answers)
    assert [question.category for question in answers.asked] == ["network"]


async def test_calls_without_arguments_differ_by_their_titles(play):
    """BX-19: a permission holds for equal arguments, and some tell their commands in the title alone."""
    calls = [EDIT | {"toolCallId": name, "kind": "execute", "title": name} for name in ("ls", "rm -r .")]
    stream = ask(calls[0], BOTH) + chosen("no") + ask(calls[1], BOTH, 1) + chosen("no", 1)
    answers = Answers()
    await play(known(), START + stream + DONE, answers)
    assert [question.args for question in answers.asked] == [{"title": "ls"}, {"title": "rm -r ."}]


async def test_gemini_asks_about_its_very_command_and_the_arguments_of_a_server_s_tool(play):
    """AL-24, BX-19: so a rule about commands decides on it, and the inbox shows what would run."""
    shell = EDIT | {"kind": "execute", "title": "npm test"}
    content = [{"type": "content", "content": {"type": "text", "text": '{"id": 7}'}}]
    tool = EDIT | {"toolCallId": "call2", "kind": "other", "title": "remove (tasks)", "content": content}
    stream = ask(shell, BOTH) + chosen("no") + ask(tool, BOTH, 1) + chosen("no", 1)
    answers = Answers()
    await play(protocol_of(known_programs["gemini"]), START + stream + DONE, answers)
    asked = [(question.category, question.args) for question in answers.asked]
    assert asked == [
        ("shell", {"command": "npm test"}),
        ("network", {"title": "remove (tasks)", "content": '{"id": 7}'}),
    ]


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ([("allow_always", "always"), ("reject_once", "no")], chosen("no")),
        ([("allow_always", "always")], answered({"outcome": "cancelled"})),
    ],
)
async def test_what_cannot_be_allowed_for_one_call_alone_is_denied_and_nobody_is_asked(play, options, step):
    answers = Answers(allowed=True)
    end = await play(known(), START + ask(EDIT, options) + step + DONE, answers)
    assert answers.asked == []
    assert end.denied == ("edit",)


GROUPED = [{"group": "safe", "options": [{"value": "default"}, {"value": "plan"}]}, {"value": "yolo"}]
ASKS, ALLOWS_ALL = ({"id": "allow_all", "category": "permissions", "currentValue": value} for value in ("off", "on"))
ASKS, ALLOWS_ALL = ({"id": "allow_all", "category": "permissions", "currentValue": value} for value in ("off", "on"))
OPTION = {"id": "how", "category": "mode", "currentValue": "yolo", "options": GROUPED}


@pytest.mark.parametrize(
    ("offer", "setting", "mode", "wanted"),
    [
        ({"modes": MODES | {"currentModeId": "yolo"}}, ("session/set_mode", "modeId"), "edit", "default"),
        ({"modes": MODES}, ("session/set_mode", "modeId"), "read", "plan"),
        ({"modes": MODES, "configOptions": [OPTION]}, ("session/set_config_option", "value"), "edit", "default"),
    ],
)
async def test_the_mode_that_is_meant_is_set_before_the_prompt(play, offer, setting, mode, wanted):
    """BX-19"""
    method, key = setting
    stream = (
        INITIALIZE
        + expect(2, "session/new")
        + result(2, sessionId="id1", **offer)
        + expect(3, method, sessionId="id1", **{key: wanted})
        + result(3)
        + update("current_mode_update", currentModeId=wanted)
        + expect(4, "session/prompt")
        + result(4, stopReason="end_turn")
    )
    answers = Answers()
    end = await play(known(), stream, answers, mode=mode)
    assert end.failure is None
    assert any(f"to {wanted}" in event.text for event in answers.heard if isinstance(event, Noticed))


@pytest.mark.parametrize(
    ("edit_mode", "offer", "why"),
    [
        ("default", {"modes": {"currentModeId": "agent", "availableModes": [{"id": "agent"}]}}, "default, but: agent"),
        ("default", {}, "default, but: none"),
        ("", {"modes": {"availableModes": [{"id": "code"}, {"id": "yolo"}]}}, "default or ask, but: code, yolo"),
    ],
)
async def test_a_program_without_a_mode_that_is_known_to_ask_is_refused_with_its_list(
    play, worktree, edit_mode, offer, why
):
    """AL-24, BX-19"""
    stream = INITIALIZE + expect(2, "session/new") + result(2, sessionId="id1", **offer) + "> {}\n! write prompted\n"
    end = await play(AcpProtocol(edit_mode, ""), stream, Answers())
    assert end.failure == "program"
    assert why in end.why
    assert not (worktree / "prompted").exists()


@pytest.mark.parametrize("offer", [{}, {"modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}]}}])
async def test_an_unknown_program_works_in_a_mode_that_asks_or_has_none(play, offer):
    stream = INITIALIZE + expect(2, "session/new") + result(2, sessionId="id1", **offer) + PROMPT + DONE
    assert (await play(AcpProtocol("", ""), stream, Answers())).failure is None


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (update("current_mode_update", currentModeId="yolo"), "mode from default to yolo"),
        (update("config_option_update", configOptions=[OPTION]), "mode from default to yolo"),
        (update("config_option_update", configOptions=[ASKS, ALLOWS_ALL]), "allow_all from off to on"),
    ],
)
async def test_a_program_that_changes_how_it_asks_is_stopped(play, changed, what):
    """BX-19"""
    new = NEW.replace('"modes"', f'"configOptions": [{json.dumps(ASKS)}], "modes"')
    end = await play(known(), INITIALIZE + new + PROMPT + changed + "! hang\n", Answers())
    assert (end.failure, end.why) == ("program", f"it changed its {what}")


async def test_a_program_that_leaves_its_mode_before_the_prompt_gets_none(play, worktree):
    """BX-19"""
    models = {"currentModelId": "auto", "availableModels": [{"modelId": "pro"}]}
    left = update("current_mode_update", currentModeId="yolo") + '< {"id": 3, "result": {}}\n> {}\n! write prompted\n'
    new = expect(2, "session/new") + result(2, sessionId="id1", modes=MODES, models=models)
    end = await play(known(), INITIALIZE + new + expect(3, "session/set_model") + left, Answers(), model="pro")
    assert (end.failure, end.why) == ("program", "it changed its mode from default to yolo")
    assert not (worktree / "prompted").exists()


@pytest.mark.parametrize("category", ["model", "thought_level"])
async def test_a_program_may_change_its_model(play, category):
    models = [{"id": "m", "category": category, "currentValue": value, "options": []} for value in ("a", "b")]
    new = NEW.replace('"modes"', f'"configOptions": [{json.dumps(models[0])}], "modes"')
    changed = update("config_option_update", configOptions=[models[1]])
    assert (await play(known(), INITIALIZE + new + PROMPT + changed + DONE, Answers())).failure is None


@pytest.mark.parametrize("prompt", ["/allow-all on", " /allow-all on", "!ls", "\n@x"])
async def test_a_prompt_is_never_a_command_of_the_program(play, prompt):
    """BX-19: copilot obeys `/allow-all on`, and asks about nothing any more."""
    text = [{"type": "text", "text": f"Your task:\n{prompt}"}]
    stream = INITIALIZE + NEW + expect(3, "session/prompt", prompt=text) + DONE
    assert (await play(known(), stream, Answers(), prompt=prompt)).failure is None


async def test_an_agent_gets_our_tools_and_what_is_added_to_its_base_prompt_once(play, worktree):
    servers = [{"name": "ours", "command": "tools", "args": ["serve"], "env": [{"name": "A", "value": "1"}]}]
    new = expect(2, "session/new", cwd=str(worktree), mcpServers=servers) + result(2, sessionId="id1", modes=MODES)
    texts = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Fix calc.py"}]
    server = ToolServer(name="ours", command=("tools", "serve"), env={"A": "1"})
    stream = INITIALIZE + new + expect(3, "session/prompt", prompt=texts) + DONE
    assert (await play(known(), stream, Answers(), system="Be brief.", server=server)).failure is None


async def test_a_conversation_that_is_loaded_is_not_told_again_and_not_counted_again(play):
    """AL-20"""

    def cost(amount):
        return update("usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})

    stream = (
        CAN_LOAD
        + expect(2, "session/load", sessionId="id1")
        + said("Long ago.")
        + update("tool_call", **EDIT | {"status": "completed"})
        + cost(2.0)
        + result(2, modes=MODES)
        + expect(3, "session/prompt", prompt=[{"type": "text", "text": "Go on"}])
        + said("Done.")
        + cost(2.5)
        + DONE
    )
    answers = Answers()
    end = await play(known(), stream, answers, session="id1", prompt="Go on", system="Be brief.")
    assert (end.text, end.session) == ("Done.", "id1")
    assert end.usage == Usage(cost_usd=0.5)
    assert not {StartedTool, EndedTool} & set(answers.told)
    assert [event for event in answers.heard if isinstance(event, SaidText)] == [SaidText("Done.")]


async def test_resuming_is_preferred_to_loading(play):
    able = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    stream = expect(1, "initialize") + result(1, protocolVersion=1, agentCapabilities=able)
    stream += expect(2, "session/resume", sessionId="id1") + result(2, modes=MODES) + PROMPT + DONE
    assert (await play(known(), stream, Answers(), session="id1")).failure is None


@pytest.mark.parametrize(
    ("stream", "failure", "why"),
    [
        (INITIALIZE, "session", "it cannot continue a conversation"),
        (
            CAN_LOAD + '> {"id":2}\n< {"id":2,"error":{"code":-32603,"message":"Error","data":{"details":"none"}}}\n',
            "session",
            "Error: none",
        ),
        (
            CAN_LOAD + '> {"id":2}\n< {"id":2,"error":{"code":-32000,"message":"log in first"}}\n',
            "login",
            "log in first",
        ),
    ],
)
async def test_a_conversation_that_is_gone_is_told_apart_and_gets_no_prompt(play, worktree, stream, failure, why):
    end = await play(known(), stream + "> {}\n! write prompted\n! hang\n", Answers(), session="id1")
    assert (end.failure, end.why, end.session) == (failure, why, "")
    assert not (worktree / "prompted").exists()


FAILS = '< {"id":3,"error":{"code":-32603,"message":"service failure"}}\n'


@pytest.mark.parametrize(
    ("session", "before", "failure"), [("id1", "", "session"), ("id1", "words", "model"), ("", "", "model")]
)
async def test_a_conversation_that_opens_and_cannot_go_on_is_gone(play, session, before, failure):
    """BX-28: one of them opens a conversation of a folder that is gone, and fails at the prompt."""
    opened = result(2, sessionId="id1", modes=MODES)
    stream = CAN_LOAD + '> {"id":2}\n' + opened + '> {"id":3}\n' + (said("Well.") if before else "") + FAILS
    end = await play(known(), stream, Answers(), session=session)
    assert (end.failure, end.why, end.session) == (failure, "service failure", "" if failure == "session" else "id1")


async def test_an_agent_of_another_version_of_the_protocol_is_refused(play):
    end = await play(known(), expect(1, "initialize") + result(1, protocolVersion=2), Answers())
    assert (end.failure, end.why) == ("program", "it speaks version 2 of ACP, not 1")


MODELS = {"currentModelId": "auto", "availableModels": [{"modelId": "auto"}, {"modelId": "pro"}]}


async def test_a_model_is_chosen_by_the_name_that_the_agent_has_for_it(play):
    offer = expect(2, "session/new") + result(2, sessionId="id1", modes=MODES, models=MODELS)
    setting = expect(3, "session/set_model", modelId="pro") + result(3)
    prompt = expect(4, "session/prompt") + result(4, stopReason="end_turn")
    end = await play(known(), INITIALIZE + offer + setting + prompt, Answers(), model="pro")
    assert (end.failure, end.model) == (None, "pro")
    end = await play(known(), INITIALIZE + offer, Answers(), model="best")
    assert end.why == "it offers no model best, but: auto, pro"


@pytest.mark.parametrize(
    ("stream", "used"),
    [
        # What the sum says is the rest of the input: it came from the cache.
        (
            result(
                3,
                stopReason="end_turn",
                usage={"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 100, "totalTokens": 115},
            ),
            Usage(input_tokens=110, cached_input_tokens=100, output_tokens=5, cost_usd=None, requests=1),
        ),
        (
            result(
                3,
                stopReason="end_turn",
                usage={"inputTokens": 110, "outputTokens": 5, "cachedReadTokens": 100, "totalTokens": 115},
            ),
            Usage(input_tokens=110, cached_input_tokens=100, output_tokens=5, cost_usd=None, requests=1),
        ),
        (
            result(3, stopReason="end_turn", _meta={"quota": {"token_count": {"input_tokens": 9, "output_tokens": 2}}}),
            Usage(input_tokens=9, output_tokens=2, cost_usd=None, requests=1),
        ),
        # Each request for itself, with the words that it answered.
        (
            update("agent_message_chunk", _meta={"usage": {"inputTokens": 7, "outputTokens": 1, "totalTokens": 8}}) * 2
            + DONE,
            Usage(input_tokens=14, output_tokens=2, cost_usd=None, requests=2),
        ),
        # A cost of nothing is what an unknown price looks like.
        (update("usage_update", cost={"amount": 0, "currency": "USD"}) + DONE, None),
        (update("usage_update", cost={"amount": 3, "currency": "EUR"}) + DONE, None),
    ],
)
async def test_usage_is_read_where_agents_report_it(play, stream, used):
    answers = Answers()
    end = await play(known(), START + stream, answers)
    assert end.usage == used
    assert (ReportedUsage in set(answers.told)) == (used is not None)


@pytest.mark.parametrize(
    ("stop", "failure"),
    [
        ("end_turn", None),
        ("max_turn_requests", "limit"),
        ("refusal", "model"),
        ("cancelled", "program"),
        ("new", "program"),
    ],
)
async def test_only_the_end_of_a_turn_claims_that_it_is_done(play, stop, failure):
    end = await play(known(), START + result(3, stopReason=stop), Answers())
    assert end.failure == failure


CANCELLED = (
    expect(None, "session/cancel", sessionId="id1").replace('"id": null, ', "")
    + answered({"outcome": "cancelled"})
    + "! write cancelled\n"
    + result(3, stopReason="cancelled")
    + "! hang\n"
)


async def test_a_turn_that_is_cut_off_is_cancelled_and_its_open_question_answered_so(play, worktree):
    """AL-20"""
    answers = NeverAnswers()
    turn = asyncio.create_task(play(known(), START + ask(EDIT, BOTH) + CANCELLED, answers))
    await answers.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (worktree / "cancelled").exists()


async def test_what_a_listener_raises_cancels_the_turn_and_is_raised_from_it(play, worktree):
    class NeedsAHuman(Answers):
        async def permit(self, question, /):
            raise LookupError(question.title)

    with pytest.raises(LookupError, match="Edit calc"):
        await play(known(), START + ask(EDIT, BOTH) + CANCELLED, NeedsAHuman())
    assert (worktree / "cancelled").exists()


async def test_a_call_is_told_once_it_is_more_than_announced_and_ends_once(play):
    stream = (
        update("tool_call", **EDIT | {"title": "Edit"})
        + update("tool_call_update", toolCallId="call1", title="Edit calc.py", rawInput={"file_path": "calc.py"})
        + update("tool_call_update", toolCallId="call1", status="in_progress")
        + update("tool_call_update", toolCallId="call1", status="failed", rawOutput={"message": "no such file"})
        + update("agent_thought_chunk", content={"type": "text", "text": "Hm."})
    )
    answers = Answers()
    await play(known(), START + said("I look.") + stream + DONE, answers)
    assert answers.heard == [
        SaidText("I look."),
        StartedTool("call1", "Edit calc.py", {"file_path": "calc.py"}),
        EndedTool("call1", '{"message":"no such file"}', failed=True),
        SaidText("Hm.", is_thinking=True),
    ]
