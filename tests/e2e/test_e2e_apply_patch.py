"""`ralph` with a model that writes patches, by the real command against a loopback server."""

import json

import pytest

from model_server.server import serve
from model_server.turn import Call, Turn

PATCH = """*** Begin Patch
*** Update File: README.md
+more
*** End of File
*** Add File: src/new.py
+x = 1
*** End Patch"""


async def ralph(scenario, server, *args, model):
    process = await scenario.spawn("ralph", *args, "--model", model, environ=server.environ)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def tool_names(request):
    return {tool.get("name") or tool["function"]["name"] for tool in request.json["tools"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wire", "name", "offered"),
    [("responses", "gpt-5", True), ("chat", "o4-mini", True), ("chat", "gpt-4o", False), ("anthropic", "", False)],
)
async def test_only_models_trained_on_patches_are_offered_the_tool(scenario, wire, name, offered):
    """RA-1, RA-4: `edit` is for all of them."""
    async with serve(wire, [Turn(text="done")]) as server:
        model = f"{server.model.partition(':')[0]}:{name}" if name else server.model
        code, _, err = await ralph(scenario, server, "look", model=model)
    assert code == 0, err
    assert ("apply_patch" in tool_names(server.requests[0])) == offered
    assert "edit" in tool_names(server.requests[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "applied"),
    [
        (("--yolo",), True),
        (("--allow", "apply_patch:README.md", "--allow", "apply_patch:src/**"), True),
        (("--allow", "apply_patch:README.md"), False),
        ((), False),
    ],
)
async def test_a_patch_is_applied_if_every_file_may_be_written(scenario, flags, applied):
    """RA-4, RA-13."""
    before = (scenario.repo / "README.md").read_text()
    turns = [Turn(text="patching", calls=(Call("apply_patch", {"input": PATCH}),)), Turn(text="done")]
    async with serve("responses", turns) as server:
        code, out, err = await ralph(scenario, server, "go", "--output-format", "json", *flags, model="openai:gpt-5")
    assert (code, json.loads(out)["result"]) == (0, "done"), err
    assert (scenario.repo / "README.md").read_text() == before + "more\n" * applied
    assert (scenario.repo / "src" / "new.py").exists() == applied
