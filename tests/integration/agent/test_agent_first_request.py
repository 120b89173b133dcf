from datetime import date
from pathlib import Path

import pytest

from scaffold.agent.instructions import Instructions
from scaffold.agent.prompts import BUILT_IN, session_context, session_prompt, system_prompt
from scaffold.core.conversation import Text
from scaffold.llm.anthropic import AnthropicCodec
from scaffold.llm.cassette import Entry
from scaffold.llm.chat import ChatCodec
from scaffold.llm.codec import Target
from scaffold.llm.responses import ResponsesCodec
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.workspace import Workspace
from talk import Listening, agent, tape

TARGET = Target(name="a-model", model="anthropic:a-model")
CODECS = [AnthropicCodec(), ChatCodec(), ResponsesCodec()]


async def request_of(folder, system, said):
    """Return the first request of an agent with every built-in tool."""
    model = Listening(tape(Entry(text="done")))
    context = session_context(cwd=folder, today=date(2030, 1, 2), platform="Linux", branch="main")
    tools = builtin_tools(Workspace(folder, {"PATH": "/usr/bin:/bin"}))
    await agent(model, *tools, system=system, context=context).turn(said)
    return model.requests[0]


def encoded(codec, request):
    """Return the request as it goes over a wire."""
    return codec.request(request, [codec.message(message, TARGET) for message in request.messages], TARGET)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
async def test_the_first_request_of_a_small_task_has_at_most_24_kilobytes(tmp_path, codec):
    """Issue 4, speed: system, tools, context and prompt together; AGENTS.md comes on top."""
    request = await request_of(tmp_path, session_prompt(), "Fix the failing test in tests/test_clock.py.")
    assert len(encoded(codec, request)) <= 24_000
    assert len(encoded(codec, request)) <= 8_000, "what it takes today, with room to grow"


@pytest.mark.parametrize("role", sorted(BUILT_IN))
async def test_the_first_request_of_a_worker_is_no_longer(tmp_path, role):
    request = await request_of(tmp_path, system_prompt(role), "Make the clock right.")
    assert len(encoded(AnthropicCodec(), request)) <= 24_000


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
async def test_the_cached_beginning_is_the_same_bytes_whatever_the_day_is(tmp_path, codec):
    """RA-3: the base prompt, instructions included, comes before all that may differ."""
    instructions = Instructions(Path("/x/AGENTS.md"), "Use tabs.")
    request = await request_of(tmp_path, session_prompt(instructions), [Text("go")])
    body = encoded(codec, request)
    assert body.index(b"Use tabs.") < body.index(b"2030-01-02")
