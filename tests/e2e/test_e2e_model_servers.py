"""Servers of others, by the real commands: the lines of docs/model-servers.md, and what a server says of itself."""

import asyncio
import json
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from model_server.server import serve
from model_server.turn import Turn
from support.scenario import COMMAND_S, action, plan_of

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "model-servers.md"
ROW = re.compile(r"^\| (?P<server>[^|]+) \| `(?P<line>ralph [^`]+)` \|$", re.MULTILINE)
LINES = {found["server"]: shlex.split(found["line"]) for found in ROW.finditer(PAGE.read_text())}
KEY = "sk-a-key-of-a-server"
FINE = Turn(text="Fine.")

# What each says of itself, and where; and how it says that it has no such model.
SAYS = {
    "Ollama": ("/api/ps", {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 16384}]}),
    "LM Studio": (
        "/api/v0/models",
        {"data": [{"id": "qwen/qwen3-8b", "type": "llm", "state": "loaded", "loaded_context_length": 16384}]},
    ),
    "llama.cpp": ("/props", {"default_generation_settings": {"n_ctx": 16384}, "total_slots": 4}),
    "vLLM": ("/v1/models", {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "max_model_len": 16384}]}),
    "OpenRouter": (
        "/api/v1/models",
        {"data": [{"id": "qwen/qwen3-8b:free", "context_length": 16384, "supported_parameters": ["tools"]}]},
    ),
    "Mistral": (
        "/v1/models",
        {
            "data": [
                {"id": "mistral-small-latest", "max_context_length": 16384, "capabilities": {"function_calling": True}}
            ]
        },
    ),
}
MISSING = {
    "Ollama": {"error": {"message": 'model "qwen3:8b" not found, try pulling it first', "type": "api_error"}},
    "vLLM": {"object": "error", "message": "The model `Qwen/Qwen3-8B` does not exist.", "code": 404},
    "Gemini": [{"error": {"code": 404, "message": "models/gemini-2.5-flash is not found.", "status": "NOT_FOUND"}}],
    "Azure, dated": {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
}


def here(server, model):
    """Return the model string with the address of the loopback server in place of the real host."""
    name, url = re.fullmatch(r"(.+?)@(http.+)", model).groups()
    parts = urlsplit(url)
    return f"{name}@{parts._replace(scheme='http', netloc=f'127.0.0.1:{server.port}').geturl()}"


async def outcome(scenario, *argv, environ):
    process = await scenario.spawn(*argv, environ=environ, stderr=subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(), COMMAND_S)
    return process.returncode, out.decode(), re.sub(r"\s+", " ", err.decode())


@pytest.mark.parametrize("server", LINES)
async def test_each_line_of_the_page_reaches_its_server(scenario, server):
    """BX-30: the path, the name of the model and the key are what this server reads; its window is asked for."""
    *argv, model = LINES[server]
    name = model.removeprefix("local:").partition("@http")[0]
    async with serve("chat", [FINE]) as there:
        url = urlsplit(here(there, model).rpartition("@")[2])
        path = f"{(url.path or '/v1').rstrip('/')}/chat/completions"
        there.others[path] = lambda _: FINE
        if server in SAYS:
            place, answer = SAYS[server]
            there.pages[place] = json.dumps(answer)
        environ = {**there.environ, "LOCAL_API_KEY": KEY}
        code, out, err = await outcome(scenario, *argv, here(there, model), environ=environ)
    assert (code, out.strip()) == (0, "Fine."), err
    asked = [received for received in there.requests if received.path != "/api/show"][-1]
    assert urlsplit(asked.path).path == path
    assert asked.json["model"] == name
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.headers.get("api-key") == KEY) is (server == "Azure, dated")
    assert asked.path.endswith("?api-version=2024-10-21") is (server == "Azure, dated")
    assert (asked.json["max_tokens"] < 16384) is (server in SAYS)


@pytest.mark.parametrize("server", MISSING)
async def test_a_model_that_a_server_does_not_have_is_named_with_those_that_it_has(scenario, server):
    """BX-30: in the server's words, at once, with where to look."""
    *argv, model = LINES[server]
    async with serve("chat", [FINE]) as there:
        url = urlsplit(here(there, model).rpartition("@")[2])
        refusal = Turn(status=404, body=json.dumps(MISSING[server]), content_type="application/json")
        there.others[f"{url.path}/chat/completions"] = lambda _: refusal
        there.pages["/v1/models"] = json.dumps({"data": [{"id": "smollm2"}, {"id": "gemma3"}]})
        code, _, err = await outcome(scenario, *argv, here(there, model), environ=there.environ)
    assert code == 1
    said = MISSING[server][0] if isinstance(MISSING[server], list) else MISSING[server]
    assert said.get("error", said)["message"].rstrip(".") in err
    assert "the URL behind the `@`" in err
    assert ("The server has smollm2, gemma3" in err) is (url.path == "/v1")


async def test_what_a_local_server_says_of_its_model_is_shown_before_money_and_time(scenario):
    """BX-30: in `doctor`, and in the header of a run."""
    scenario.plan(plan_of(g=[action("a", effects=["a_done"], check="test -f a.txt")]))
    said = {
        "default_generation_settings": {"n_ctx": 16384},
        "total_slots": 1,
        "chat_template_caps": {"supports_tools": False},
        "modalities": {"vision": False},
    }
    async with serve("chat", [Turn(text="Fine.", times=9)]) as there:
        there.pages["/props"] = json.dumps(said)
        model = there.local_model
        shown = f"{model}: a window of 16,384 tokens, 1 request at once, no tools (they are offered as text), no images"
        _, out, _ = await outcome(scenario, "doctor", "--json", environ={"SCAFFOLD_MODEL": model})
        plan = str(scenario.home / "plan.yaml")
        _, _, err = await outcome(scenario, "run", "--plan", plan, "--model", model, "--yes", environ={})
    (check,) = [each for each in json.loads(out)["checks"] if each["name"] == "model server"]
    assert (check["status"], check["message"]) == ("warn", shown)
    assert f"model server {shown}" in err
