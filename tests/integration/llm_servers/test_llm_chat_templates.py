"""The chat templates of llama.cpp's sources, rendered by its real server: what becomes of a conversation."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as Get
from urllib.request import urlopen

import msgspec
import pytest

from model_server.server import serve
from model_server.turn import Call, Received, Turn, Used
from scaffold.core.conversation import Caller, Request, Text, ToolResult, UserMessage
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.live_context import LearnedWindows, LiveContext

pytestmark = pytest.mark.slow
TEMPLATES = sorted((Path(__file__).parents[3] / ".venv-servers" / "templates").glob("*.jinja"))
LONG = "BASE-PROMPT " + " ".join(map(str, range(1200)))
"""More tokens than the server has room for: a prompt that it renders it then refuses as too long, without a reply."""


async def _look(args: Any) -> ToolOutput:
    return ToolOutput("")


LOOK = Tool(
    name="look_at",
    description="Looks at the TOOL-TEXT.",
    schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    category="file_read",
    run=_look,
)


@pytest.fixture(params=TEMPLATES or [None], ids=lambda path: path.stem if path else "none")
def rendering(
    request: pytest.FixtureRequest, start_llama: Callable[..., AbstractContextManager[str]]
) -> Iterator["Rendering"]:
    """A server with the template."""
    if request.param is None:
        pytest.skip("no templates: make them with `tests/integration/llm_servers/setup`")
    with start_llama(request.param) as url:
        yield Rendering(url.removesuffix("/v1"))


class Rendering:
    """Gives each request to the real server; what it can render is answered with the next of some calls."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prompt = ""
        """The last request as the template renders it."""
        self.calls = 0
        """How many calls the next reply has."""

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Get(self.url + path, data, {"Content-Type": "application/json"})) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def __call__(self, received: Received) -> Turn:
        body = {**received.json, "stream": False, "max_tokens": 1}
        status, answer = self.ask("/v1/chat/completions", body)
        if status != 200 and answer["error"]["type"] != "exceed_context_size_error":
            return Turn(status=status, body=json.dumps(answer), content_type="application/json")
        count = answer["usage"]["prompt_tokens"] if status == 200 else answer["error"]["n_prompt_tokens"]
        used = Used(input=count)
        _, rendered = self.ask("/apply-template", body)
        self.prompt = rendered["prompt"]
        paths = [{"path": f"FILE{n}"} for n in range(self.calls)]
        if "tools" in body:
            return Turn(calls=tuple(Call("look_at", path) for path in paths), text="" if paths else "Fine.", usage=used)
        calls = (json.dumps({"name": "look_at", "arguments": path}) for path in paths)
        return Turn(text="".join(f"<tool_call>\n{call}\n</tool_call>\n" for call in calls) or "Fine.", usage=used)

    def missing(self, *words: str) -> list[str]:
        return [word for word in words if word not in self.prompt]


@pytest.mark.parametrize("calls", [0, 1, 2])
async def test_a_whole_conversation_reaches_the_model(rendering: Rendering, calls: int, line: LiveContext) -> None:
    """RA-1, BX-30: both prompts, tools, each call and its result, and what the user said in between."""
    _, props = rendering.ask("/props")
    props["default_generation_settings"]["n_ctx"] = 32_768
    said: list[Any] = [UserMessage((Text("FIRST-WORDS"),))]
    given: dict[str, Any] = {"system": LONG, "context": "CONTEXT-TEXT", "tools": (LOOK,) if calls else ()}
    base = ["BASE-PROMPT", "CONTEXT-TEXT", "FIRST-WORDS", *(["TOOL-TEXT"] if calls else [])]
    async with serve("chat", rendering) as server:
        server.pages["/props"] = json.dumps(props)
        context = msgspec.structs.replace(line, learned=LearnedWindows())
        model = open_model(server.local_model, clock=SystemClock(), rng=Random(1), line=context)

        async def go_on() -> None:
            reply = await model.reply(Request(caller=Caller(role="agent"), messages=tuple(said), **given))
            said.append(reply.message)

        rendering.calls = calls
        await go_on()
        assert rendering.missing(*base) == []
        made, rendering.calls = said[-1].tool_calls, 0
        assert len(made) == calls
        if calls:
            results = [ToolResult(call.id, call.name, f"RESULT{n}") for n, call in enumerate(made)]
            said.append(UserMessage((*results, Text("MORE-WORDS")) if calls == 2 else tuple(results)))
            await go_on()
            parts = [f"{word}{n}" for n in range(calls) for word in ("FILE", "RESULT")]
            assert rendering.missing(*parts, *(["MORE-WORDS"] if calls == 2 else [])) == []
        said.append(UserMessage((Text("LAST-WORDS"),)))
        await go_on()
        assert rendering.missing("BASE-PROMPT", "FIRST-WORDS", "LAST-WORDS") == []
