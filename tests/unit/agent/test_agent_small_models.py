"""A small model is offered few tools and told little at the start; the rest it loads."""

from pathlib import Path

from fakes import RecordingModel, ScriptedModel, agent, text_reply
from scaffold.agent.deferred_tools import FIRST_TOOLS, MAX_SMALL, for_small_model, offered_tools, with_load_tools
from scaffold.agent.instruction_files import Instructions
from scaffold.agent.prompts import session_prompt, worker_prompt
from scaffold.core.conversation import Text, ToolCall
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema

DONE = text_reply(Text("done"))


def tool(name, category="memory", **more):
    async def run(args):
        return ToolOutput(f"{name} was run")

    given = {"description": f"Does {name}. More of it.", "schema": object_schema({})} | more
    return Tool(name=name, category=category, run=run, **given)


MANY = (*map(tool, ("a", "b", "c")), *map(tool, reversed(FIRST_TOOLS)), tool("python", "python"))


def at_start(tools):
    return [each.name for each in offered_tools(with_load_tools(for_small_model(tools)), ())]


def test_a_small_model_is_offered_at_most_8_tools_those_for_files_and_commands_first():
    """BX-30: whatever there is: groups, families of many tools, tools for trained models only."""
    assert at_start(MANY) == [*reversed(FIRST_TOOLS), "load_tools"]
    assert at_start(MANY[:8]) == [each.name for each in MANY[:8]]
    family = tool("far", group=ToolGroup("far", "far things", family="server"))
    group = tool("near", group=ToolGroup("near", "near things"))
    patch = tool("apply_patch", for_trained_models=True)
    assert at_start((*MANY[:8], group))[-1] == "load_tools"
    for more in ((family,), (group,), (family, group), (family, group, patch)):
        for count in range(len(MANY) + 1):
            offered = [name for name in at_start((*MANY[:count], *more)) if name != "apply_patch"]
            assert len(offered) <= MAX_SMALL
            assert len(offered) == MAX_SMALL or set(offered) >= {each.name for each in MANY[:count]}


async def test_tools_that_are_not_offered_are_loaded_by_category_and_served_either_way():
    """BX-30: by the mechanism of all groups; what is named of a group is short."""
    replies = [text_reply(ToolCall(str(at), *call), stop="tool_calls") for at, call in enumerate([
        ("python", {}), ("load_tools", {"group": "memory"}), ("b", {})])]  # fmt: skip
    model = RecordingModel(ScriptedModel(*replies, DONE), is_small=True)
    await agent(model, *MANY).turn("go")
    first, second, third, _ = ([each.name for each in request.tools] for request in model.requests)
    assert (len(first), second, third) == (MAX_SMALL, [*first, "python"], [*first, "python", "a", "b", "c"])
    results = [message.parts[0].content for message in model.requests[-1].messages[2::2]]
    assert results == ["python was run", "From your next message on, you have: a, b, c.", "b was run"]
    shown = {each.name: each.description for each in model.requests[0].tools}
    assert shown["edit"] == "Does edit"
    assert "`memory`: a, b, c; `python`: python" in shown["load_tools"]


async def test_the_profile_follows_the_model_also_when_its_window_is_learned_late():
    """BX-30: Ollama tells a window only once the model is loaded; `/model` may choose another one."""
    model = RecordingModel(ScriptedModel(DONE, DONE, DONE))
    worker = agent(model, *MANY, system="All of it.", short_system="Short.", context="word " * 1_000)
    await worker.turn("go")
    large = worker.tokens
    model.is_small = True
    await worker.turn("go on")
    small = worker.tokens
    model.is_small = False
    await worker.turn("go on")
    assert [request.system for request in model.requests] == ["All of it.", "Short.", "All of it."]
    assert [len(request.tools) for request in model.requests] == [len(MANY), MAX_SMALL, len(MANY)]
    assert len(model.requests[1].context) < 1_300
    assert small < large < worker.tokens


def test_a_short_prompt_keeps_what_the_user_said_and_only_names_long_instructions():
    """BX-30: a prompt of the user's own is used as it is; small instructions of a project are in it."""
    long = Instructions(Path("/x/AGENTS.md"), "Use tabs.\n" * 200, name="AGENTS.md")
    short = Instructions(Path("/x/CLAUDE.md"), "Use tabs.", name="CLAUDE.md")
    prompt = session_prompt([long, short], more="Be brief.", short=True)
    assert (prompt.count("Use tabs."), "Be brief." in prompt) == (1, True)
    assert "read the instructions of this project: AGENTS.md" in prompt
    assert session_prompt(own="Be a pirate.", short=True) == session_prompt(own="Be a pirate.")
    assert worker_prompt("x", reviews=False, given="Be {role}.", short=True).endswith("Be x.")
    for text in (session_prompt(short=True), worker_prompt("testing", reviews=False, short=True)):
        assert len(text.splitlines()) <= 10
