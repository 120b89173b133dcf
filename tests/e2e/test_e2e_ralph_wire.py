"""`ralph` by the real command against loopback servers that speak the three wires."""

import asyncio
import base64
import json
import os
import signal
import subprocess

import pytest

from model_server.server import KEY, serve
from model_server.turn import Call, Turn, Used
from scaffold.agent.modes import mode_instructions
from support.scenario import action, plan_of

WIRES = ("anthropic", "chat", "responses")
MADE = Turn(text="making it", calls=(Call("write_file", {"path": "made.txt", "content": "x"}),))
DONE = Turn(text="made")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def ralph(scenario, server, *args, model=None, stdin=subprocess.DEVNULL):
    """Run `ralph` on a model of this server; return exit code, standard output and standard error."""
    process = await start(scenario, server, *args, model=model, stdin=stdin)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def start(scenario, server, *args, model=None, stdin=subprocess.DEVNULL):
    return await scenario.spawn("ralph", *args, "--model", model or server.model, environ=server.environ, stdin=stdin)


def said(request):
    """Return all text of a request, joined."""
    return json.dumps(request.json, ensure_ascii=False)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("flags", [(), ("--no-stream",)], ids=["streamed", "whole"])
async def test_a_task_is_done_with_tools_on_every_wire(scenario, wire, flags):
    """RA-1, RA-2: each provider's wire carries a whole turn, streamed or not; tokens and money are counted."""
    async with serve(wire, [MADE, DONE]) as server:
        code, out, err = await ralph(scenario, server, "make it", "--yolo", "--output-format", "json", *flags)
    data = json.loads(out)
    assert (code, data["result"], data["turns"], data["stop_reason"], data["error"]) == (0, "made", 2, "end", None), err
    assert (scenario.repo / "made.txt").read_text() == "x"
    assert data["usage"]["input_tokens"] == 200
    assert data["usage"]["cost_usd"] > 0
    assert [bool(request.json.get("stream")) for request in server.requests] == [not flags] * 2
    assert KEY not in out + err


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_an_interrupted_stream_is_retried_whole_and_its_partial_call_never_runs(scenario, wire):
    """RA-21: its shown text is voided; the file is written once, by the complete call."""
    half = Turn(text="making it", calls=MADE.calls, cut_at=1_000 if wire == "responses" else 700)
    async with serve(wire, [half, MADE, DONE]) as server:
        code, out, _ = await ralph(scenario, server, "make it", "--yolo", "--output-format", "stream-json")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [event["type"] for event in events].count("tool_call") == 1
    assert any(event.get("notice") == "superseded" for event in events)
    assert events[-1]["result"] == "made"
    assert events[-1]["turns"] == 2


THINKING = Turn(thinking="Let me see.", text="making it", calls=MADE.calls)
ASKED = {
    "anthropic": lambda body: body.get("thinking", {}).get("budget_tokens"),
    "responses": lambda body: body.get("reasoning", {}).get("effort"),
}
EFFORTS = {"anthropic": (10_000, 24_000, None), "responses": ("medium", "high", "minimal")}


@pytest.mark.slow
@pytest.mark.parametrize("wire", ASKED)
async def test_the_model_thinks_by_default_and_as_much_as_the_user_wants(scenario, wire):
    """RA-2: the flag before the settings, and a tool loop with the thoughts of its first reply."""
    asked = []
    for flags in ((), ("--effort", "high"), ("--effort", "off")):
        async with serve(wire, [THINKING, DONE]) as server:
            code, out, err = await ralph(scenario, server, "make it", "--yolo", "--output-format", "json", *flags)
        assert code == 0, err
        assert json.loads(out)["result"] == "made"
        assert len({ASKED[wire](request.json) for request in server.requests}) == 1, "it does not flip in a turn"
        assert b"c2VhbA==" in server.requests[1].body, "the signature, or the encrypted thoughts"
        asked.append(ASKED[wire](server.requests[0].json))
    assert tuple(asked) == EFFORTS[wire]
    scenario.scaffold("config", "effort", "high")
    async with serve(wire, [THINKING, DONE]) as server:
        await ralph(scenario, server, "make it", "--yolo")
    assert ASKED[wire](server.requests[0].json) == EFFORTS[wire][1]


@pytest.mark.slow
async def test_what_a_session_says_of_itself_fits_into_18_kilobytes(scenario):
    """RA-3, RA-4, RA-20: prompt, mode and descriptions; what the repository adds comes on top."""
    (scenario.repo / "AGENTS.md").write_text("Use tabs.")
    (scenario.repo / "new.py").write_text("")
    async with serve("anthropic", [Turn(text="hello")]) as server:
        await ralph(scenario, server, "hi", "--mode", "plan")
    body = server.requests[0].json
    (base, context), tools = body["system"], body["tools"]
    assert base["text"].endswith("# Instructions of this project (AGENTS.md)\n\nUse tabs.")
    assert (
        "Git status at the start of this session (changes from before it):\n?? AGENTS.md\n?? new.py" in context["text"]
    )
    assert "Latest commits at the start:\n" in context["text"]
    found = context["text"].partition("Git status at the start")[2]
    said = context["text"].replace(found, mode_instructions("plan"))
    assert len(base["text"]) + len(said) + len(json.dumps(tools, separators=(",", ":"))) <= 18_000


@pytest.mark.slow
async def test_a_conversation_that_goes_on_elsewhere_says_so(scenario, tmp_path):
    """RA-10: to the user and to the model: the names in it are those of another directory."""
    other = tmp_path / "other"
    other.mkdir()
    async with serve("anthropic", [DONE, DONE, DONE]) as server:
        _, out, _ = await ralph(scenario, server, "make it", "--output-format", "json")
        session = json.loads(out)["session_id"]
        _, _, here = await ralph(scenario, server, "go on", "--resume", session)
        _, _, there = await ralph(scenario, server, "go on", "--resume", session, "--cwd", str(other))
    assert f"Begun in {scenario.repo}; continues in this directory" in there
    assert f"This conversation began in {scenario.repo}." in server.requests[2].json["system"][1]["text"]
    assert "Begun in" not in here
    assert "began in" not in said(server.requests[1])


@pytest.mark.slow
async def test_a_refused_parameter_is_told_and_left_out(scenario):
    """RA-21."""
    message = "Unsupported parameter: 'reasoning.effort' is not supported with this model."

    def strict(received):
        if "reasoning" in received.json:
            return Turn(status=400, error=("invalid_request_error", message))
        return Turn(text="hello")

    async with serve("responses", strict) as server:
        code, out, err = await ralph(scenario, server, "hi", "--sandbox", "off")
    assert (code, out.strip()) == (0, "hello")
    assert "asking again: openai:gpt-5 answered HTTP 400: Unsupported parameter: 'reasoning.effort'" in err


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_a_wrong_key_is_reported_at_once_and_never_shown(scenario, wire):
    refused = Turn(status=401, error=("authentication_error", f"invalid key {KEY}"))
    async with serve(wire, [refused]) as server:
        # Otherwise a machine that has no sandbox adds a notice about that.
        code, out, err = await ralph(scenario, server, "hi", "--sandbox", "off")
    assert (code, out, len(server.requests)) == (1, "", 1)
    assert "_API_KEY" in err
    assert KEY not in err
    notice, *error = err.splitlines()
    assert "commands do not get" in notice  # once; the error itself has two lines
    assert len(error) == 2


@pytest.mark.slow
async def test_a_busy_endpoint_is_asked_again_after_its_retry_after(scenario):
    """RA-21, AL-31: Retry-After is honoured, and the wait is shown."""
    busy = Turn(status=429, headers={"Retry-After": "1"})
    async with serve("anthropic", [busy, DONE]) as server:
        code, out, err = await ralph(scenario, server, "hi")
    assert (code, out, len(server.requests)) == (0, "made\n", 2)
    assert "waiting" in err


@pytest.mark.slow
async def test_a_conversation_continues_even_on_another_wire(scenario):
    """RA-10, RA-1: `-c` continues the latest conversation; the model may be another one, on another wire."""
    async with serve("anthropic", [MADE, Turn(text="made it")]) as first:
        await ralph(scenario, first, "make the thing", "--yolo")
    async with serve("responses", [Turn(text="as I said")]) as second:
        code, out, err = await ralph(scenario, second, "-c", "what did you do?")
    assert (code, out) == (0, "as I said\n")
    (request,) = second.requests
    for words in ("make the thing", "making it", "made.txt", "made it", "what did you do?"):
        assert words in said(request)
    assert "make the thing" in err, "a recap tells where it stands"


@pytest.mark.slow
async def test_the_base_prompt_is_the_same_bytes_in_every_request_and_marked_for_the_cache(scenario):
    """RA-3: cache marks are on the base block and the last tool; on Chat there are two system messages."""
    (scenario.repo / "AGENTS.md").write_text("Always whistle.")
    async with serve("anthropic", [MADE, DONE]) as server:
        await ralph(scenario, server, "make it", "--yolo")
    first, second = (request.json for request in server.requests)
    assert first["system"] == second["system"]
    assert first["tools"] == second["tools"]
    assert [("cache_control" in block) for block in first["system"]] == [True, False]
    assert ["cache_control" in tool for tool in first["tools"]] == [False] * (len(first["tools"]) - 1) + [True]
    assert "Always whistle." in first["system"][0]["text"]
    async with serve("chat", [MADE, DONE]) as server:
        await ralph(scenario, server, "make it", "--yolo")
    systems = [[m["content"] for m in r.json["messages"] if m["role"] == "system"] for r in server.requests]
    assert len(systems[0]) == 2
    assert systems[0] == systems[1]
    assert [len(request.body) for request in server.requests][:1] <= [14_000]


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_an_image_and_a_file_named_in_the_task_are_attached(scenario, wire):
    """RA-20: an image goes to the model as an image, a text file as text."""
    (scenario.repo / "dot.png").write_bytes(PIXEL)
    (scenario.repo / "poem.txt").write_text("roses are red")
    async with serve(wire, [Turn(text="a dot")]) as server:
        code, out, _ = await ralph(scenario, server, "what are @dot.png and @poem.txt?")
    assert (code, out) == (0, "a dot\n")
    assert base64.b64encode(PIXEL).decode() in said(server.requests[0])
    assert "roses are red" in said(server.requests[0])


@pytest.mark.slow
async def test_each_limit_ends_a_session_with_its_exit_code(scenario):
    """BX-11: no request starts beyond the budget or the turn limit. Both end with 2."""
    dear = Turn(calls=(Call("list_dir", {"path": "."}),), usage=Used(input=1_000_000, output=1_000), times=9)
    async with serve("anthropic", [dear]) as server:
        code, out, _ = await ralph(scenario, server, "go", "--max-budget-usd", "8", "--output-format", "json")
        assert (code, json.loads(out)["stop_reason"], len(server.requests)) == (2, "budget", 2)
        code, out, _ = await ralph(scenario, server, "go", "--max-turns", "3", "--output-format", "json")
        assert (code, json.loads(out)["stop_reason"], len(server.requests)) == (2, "max_turns", 5)


@pytest.mark.slow
async def test_what_broken_replies_cost_is_told_even_if_none_follows(scenario):
    """RA-21, BX-11: they may have been billed; the conversation keeps the sum."""
    broken = Turn(text="x" * 300, cut_at=2_000)
    wrong_key = Turn(status=401, error=("authentication_error", "no"))
    async with serve("chat", [broken, wrong_key, Turn(text="ok")]) as server:
        _, out, _ = await ralph(scenario, server, "hi", "--max-budget-usd", "5", "--output-format", "json")
        lost = json.loads(out)
        _, out, _ = await ralph(scenario, server, "-c", "/cost")
    assert (lost["stop_reason"], lost["turns"]) == ("error", 0)
    assert lost["usage"]["cost_usd"] > 0.001
    assert f"{lost['usage']['input_tokens']:,}" in out


@pytest.mark.slow
async def test_a_model_without_a_price_counts_tokens_and_its_cost_is_unknown(scenario):
    async with serve("chat", [DONE, DONE]) as server:
        flags = ("hi", "--output-format", "json")
        _, out, _ = await ralph(scenario, server, *flags, model=server.local_model)
        assert json.loads(out)["usage"]["cost_usd"] is None
        assert json.loads(out)["usage"]["input_tokens"] == 100
        code, _, err = await ralph(scenario, server, "hi", "--max-budget-usd", "1", model="openai-chat:nobody-knows-me")
    assert code == 64
    assert "cannot be enforced" in err


@pytest.mark.slow
async def test_a_process_killed_while_it_waits_has_lost_nothing_it_stored(scenario):
    """RA-10: a crash loses no completed turn, and finished calls do not run again.

    RA-1: what the server wants back with its call comes back, and goes to no other model.
    """
    asked = asyncio.Event()
    function = {"name": "write_file", "arguments": json.dumps(MADE.calls[0].args)}
    call = {"index": 0, "id": "c1", "function": function, "extra_content": {"google": {"thought_signature": "c2Vj"}}}
    signed = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}

    def script(request):
        turns = len([m for m in request.json["messages"] if m["role"] == "assistant"])
        if turns == 0:
            return Turn(body=f"data: {json.dumps(signed)}\n\ndata: [DONE]\n\n", content_type="text/event-stream")
        if not asked.is_set():
            asked.set()
            return Turn(stall_at=-1)
        return DONE

    async with serve("chat", script) as server:
        process = await start(scenario, server, "make it", "--yolo", model=server.local_model)
        await asyncio.wait_for(asked.wait(), 30)
        process.kill()
        await process.wait()
        (scenario.repo / "made.txt").unlink()
        code, out, _ = await ralph(scenario, server, "-c", "go on", model=server.local_model)
        await ralph(scenario, server, "-c", "go on", model=f"local:other@{server.base_url}")
        *_, same, other = server.requests
    assert (code, out) == (0, "made\n")
    assert not (scenario.repo / "made.txt").exists()
    assert '"extra_content": {"google": {"thought_signature": "c2Vj"}}' in said(same)
    assert [m["role"] for m in same.json["messages"] if m["role"] != "system"][:3] == ["user", "assistant", "tool"]
    assert "write_file" in said(other)
    assert "c2Vj" not in said(other)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_an_interrupt_ends_it_at_once_with_the_command_to_continue(scenario, number):
    asked = asyncio.Event()

    def script(_request):
        asked.set()
        return Turn(stall_at=-1)

    async with serve("anthropic", script) as server:
        process = await start(scenario, server, "make it", "--output-format", "json")
        await asyncio.wait_for(asked.wait(), 30)
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 130
    assert json.loads(out)["stop_reason"] == "interrupted"
    assert "ralph -c" in err.decode()


@pytest.mark.slow
async def test_piped_input_is_part_of_the_task_and_a_silent_pipe_is_not_waited_for(scenario):
    """SC-18: one shot from argument and standard input."""
    silent, mouth = os.pipe()
    (scenario.home / "in.txt").write_text("piped words @README.md")
    async with serve("anthropic", [DONE, DONE]) as server:
        with (scenario.home / "in.txt").open() as words:
            await ralph(scenario, server, "summarise", stdin=words)
        code, _, err = await ralph(scenario, server, "alone", stdin=silent)
    os.close(mouth)
    os.close(silent)
    assert "summarise" in said(server.requests[0])
    assert "piped words @README.md" in said(server.requests[0])
    assert "# Sample" not in said(server.requests[0]), "only the user's own words attach files"
    assert (code, "not waiting for any" in err) == (0, True)


@pytest.mark.slow
async def test_a_run_works_with_a_live_model_too(scenario):
    """SC-11: each worker calls the provider itself; its result is the model's final text."""
    scenario.plan(plan_of(notes=[action("notes", effects=["noted"], check="test -f made.txt", files=["made.txt"])]))
    async with serve("anthropic", [MADE, DONE]) as server:
        scenario.environ |= server.environ
        done = await asyncio.to_thread(
            scenario.scaffold, "run", "--plan", str(scenario.home / "plan.yaml"), "--model", server.model, "--yes"
        )
        assert done.returncode == 0, done.stderr
    data = json.loads((await asyncio.to_thread(scenario.scaffold, "status", "--json")).stdout)
    assert [each["result"] for each in data["actions"]] == ["made"]
    assert data["run"]["budget"]["spent_usd"] > 0
    assert data["run"]["budget"]["reserved_usd"] == 0


def written_call(name, **args):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--no-stream",)], ids=["streamed", "whole"])
async def test_a_model_without_tools_works_by_calls_in_its_text(scenario, flags):
    """BX-30: parallel calls, one that is denied, one that cannot be read and is asked for again, and a resume."""
    made = written_call("write_file", path="made.txt", content=f"As in:\n{written_call('shell', command='id')}\n")
    script = [
        Turn(text=f"I make it.\n{made}\n{written_call('shell', command='touch denied.txt')}"),
        Turn(text="<tool_call>\nread made.txt\n</tool_call>"),
        Turn(text="made"),
        Turn(text="still made"),
    ]
    async with serve("chat", script) as server:
        server.pages["/props"] = json.dumps({"chat_template_caps": {"supports_tools": False}})
        ask = ("--allow-category", "file_write", "--output-format", "json", *flags)
        code, out, err = await ralph(scenario, server, "make it", *ask, model=server.local_model)
        data = json.loads(out)
        assert (code, data["result"], data["turns"]) == (0, "made", 3), err
        assert [each["tool"] for each in data["permission_denials"]] == ["shell"]
        assert (scenario.repo / "made.txt").read_text().count("<tool_call>") == 1
        assert not (scenario.repo / "denied.txt").exists()
        _, out, _ = await ralph(scenario, server, "go on", "-c", *ask, model=server.local_model)
    assert json.loads(out)["result"] == "still made"
    assert not any("tools" in request.json for request in server.requests)
    assert "cannot be read" in said(server.requests[2])
    last = [each["content"] for each in server.requests[3].json["messages"]]
    assert made in last[2]
    assert last[3].count("<tool_response>") == 2


@pytest.mark.slow
async def test_a_call_that_nobody_can_read_is_asked_for_once_again(scenario):
    """BX-30: then the text is the answer, and the turn ends."""
    async with serve("chat", [Turn(text="<tool_call>\nlook\n</tool_call>", times=9)]) as server:
        server.pages["/props"] = json.dumps({"chat_template_caps": {"supports_tools": False}})
        code, out, err = await ralph(scenario, server, "make it", "--yolo", model=server.local_model)
    assert (code, len(server.requests)) == (0, 2)
    assert "look" in out
    assert err.count("offered as text") == 1


@pytest.mark.slow
async def test_a_small_local_model_begins_with_few_tools_and_gets_the_rest(scenario):
    """BX-30: by its window, which is asked for before the first prompt; a configured profile decides first."""
    load = Turn(calls=(Call("load_tools", {"group": "network"}),))
    async with serve("chat", [load, *[Turn(text="done", times=9)]]) as server:
        server.pages["/props"] = json.dumps({"default_generation_settings": {"n_ctx": 16_384}})
        code, _, err = await ralph(scenario, server, "hi", model=server.local_model)
        assert code == 0, err
        await asyncio.to_thread(scenario.scaffold, "config", "models.tiny.profile", "full", code=0)
        await ralph(scenario, server, "hi", model=server.local_model)
    first, second, full = ([each["function"]["name"] for each in sent.json["tools"]] for sent in server.requests)
    assert len(first) == 8
    assert second == [*first, "web_fetch"]
    assert len(full) > len(first) + 5
    assert len(server.requests[0].body) <= 1_500 * 4
    prompt, _, _ = server.requests[0].json["messages"][0]["content"].partition("\n\nWorking directory")
    assert len(prompt.splitlines()) <= 10


@pytest.mark.slow
async def test_a_worker_on_a_small_local_model_lands_its_work(scenario):
    """BX-30: `scaffold run` has the profile as well; tools that are not offered are served."""
    script = [Turn(calls=(Call("append_file", {"path": "made.txt", "content": "x"}),)), Turn(text="made", times=9)]
    scenario.plan(plan_of(notes=[action("notes", effects=["noted"], check="test -f made.txt", files=["made.txt"])]))
    async with serve("chat", script) as server:
        server.pages["/props"] = json.dumps({"default_generation_settings": {"n_ctx": 32_768}})
        run = ("run", "--plan", str(scenario.home / "plan.yaml"), "--model", server.local_model, "--yes")
        done = await asyncio.to_thread(scenario.scaffold, *run)
        assert done.returncode == 0, done.stderr
    sent = server.requests[0].json
    assert len(sent["tools"]) == 8
    assert "git worktree" in sent["messages"][0]["content"]
