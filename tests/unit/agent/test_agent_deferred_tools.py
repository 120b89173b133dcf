"""Tools that are offered once the conversation has asked for them: what is loaded follows from it alone."""

import json

from inline_snapshot import snapshot

from fakes import CALLER, FakeBudget, JournalList, MemoryHistory, RecordingModel, ScriptedModel, text_reply
from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.deferred_tools import LOAD_TOOLS
from scaffold.agent.toolbox import Toolbox
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema

MATHS = ToolGroup("maths", "numbers are added")
OTHER = ToolGroup("other", "nothing of use")


def tool(name, group=None):
    async def run(args):
        return ToolOutput(f"{name} was run")

    return Tool(name=name, description=name, schema=object_schema({}), category="memory", run=run, group=group)


TOOLS = (tool("read"), tool("add", MATHS), tool("write"), tool("idle", OTHER), tool("subtract", MATHS))
DONE = text_reply(Text("done"))


def calling(name, **args):
    return text_reply(ToolCall("1", name, args), stop="tool_calls")


def agent(*replies, history=None, conversation=None):
    model = RecordingModel(ScriptedModel(*replies))
    records = AgentRecords(journal=JournalList(), budget=FakeBudget(), history=history or MemoryHistory())
    spec = AgentSpec(caller=CALLER, system="Work.")
    return Agent(model=model, tools=TOOLS, brief=spec, records=records, conversation=conversation), model


def offered(model):
    return [[each.name for each in request.tools] for request in model.requests]


async def test_a_group_is_offered_after_it_was_asked_for_behind_what_was_offered_before():
    """RA-3, RA-7: so the beginning of the request, which providers cache, stays the same."""
    worker, model = agent(calling(LOAD_TOOLS, group="maths"), calling("add"), DONE)
    before = worker.tokens
    await worker.turn("compute")
    always = ["read", "write", LOAD_TOOLS]
    assert offered(model) == [always, [*always, "add", "subtract"], [*always, "add", "subtract"]]
    assert model.requests[1].tools is model.requests[2].tools, "measured once"
    results = [part for message in worker.conversation.kept for part in message.parts if isinstance(part, ToolResult)]
    assert [each.content for each in results] == snapshot(
        ["From your next message on, you have: add, subtract.", "add was run"]
    )
    assert worker.tokens - before > 20, "the room that they take is known"


async def test_a_tool_that_was_not_loaded_is_served_and_its_group_is_offered_from_then_on():
    """RA-7: a model may know it from elsewhere."""
    worker, model = agent(calling("subtract"), DONE)
    await worker.turn("compute")
    assert offered(model) == [["read", "write", LOAD_TOOLS], ["read", "write", LOAD_TOOLS, "add", "subtract"]]


async def test_another_process_goes_on_with_what_was_loaded():
    """RA-10: no state but the conversation."""
    history = MemoryHistory()
    await agent(calling(LOAD_TOOLS, group="other"), calling("add"), DONE, history=history)[0].turn("compute")
    worker, model = agent(DONE, conversation=history.loaded())
    await worker.turn("go on")
    assert offered(model) == [["read", "write", LOAD_TOOLS, "idle", "add", "subtract"]]


async def test_what_was_loaded_stays_so_over_many_compactions():
    """RA-7, RA-10: the summary says so, whatever else it leaves out; and no text in it can pretend to."""
    history, text = MemoryHistory(), "x" * 2_000
    conversation = Conversation([UserMessage((Text("- groups of tools loaded: maths"),))])
    conversation.add(AssistantMessage((ToolCall("1", LOAD_TOOLS, {"group": "other"}),)))
    conversation.add(UserMessage((ToolResult("1", LOAD_TOOLS, "you have: idle"),)))
    toolbox = Toolbox(TOOLS)
    for _ in range(8):
        for _ in range(4):
            conversation.add(AssistantMessage((Text(text),)))
            conversation.add(UserMessage((Text(text),)))
        assert conversation.compact(4_000, toolbox.effects) is not None
        names = [each.name for each in toolbox.offered(conversation)]
        assert names == ["read", "write", LOAD_TOOLS, "idle"], conversation.summary
    assert LOAD_TOOLS not in json.dumps([repr(each) for each in conversation.kept])
    assert history.messages == []


async def test_unknown_groups_are_refused_and_ignored():
    """RA-7."""
    worker, model = agent(calling(LOAD_TOOLS, group="magic"), calling(LOAD_TOOLS, group=["maths"]), DONE)
    await worker.turn("compute")
    assert {tuple(names) for names in offered(model)} == {("read", "write", LOAD_TOOLS)}
    results = [part for message in worker.conversation.kept for part in message.parts if isinstance(part, ToolResult)]
    assert all(each.failed and "maths, other" in each.content for each in results)


def test_an_agent_without_groups_has_no_tool_to_load_them():
    """RA-7."""
    assert [each.name for each in Toolbox([tool("read")]).tools] == ["read"]
