"""`scaffold mcp` with clients of both eras: reading, consent, runs that outlive the server, tasks, rubbish."""

import asyncio
import json
import signal
import subprocess
from contextlib import asynccontextmanager

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, ErrorData

from support.editor import RawEditor
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import COMMAND_S, PATIENCE_S, action, wait_until, write

TASKS = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
READING = {*("list_runs", "run_status", "list_actions", "get_action", "get_evidence", "list_inbox", "wait_for_run")}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS: {}}},
}


@asynccontextmanager
async def client_of(scenario, *flags, era="auto", answer=None, **more):
    """Start `scaffold mcp` and connect; `answer` is what the user answers; None if there is nobody to ask."""
    asked = []

    async def elicit(_context, params):
        asked.append(params.message)
        return answer if isinstance(answer, ErrorData) else ElicitResult(action="accept", content=answer)

    command, *args = scenario.command("mcp", *flags)
    server = StdioServerParameters(command=command, args=args, env=scenario.environ, cwd=scenario.repo)
    callback = None if answer is None else elicit
    async with Client(server, mode=era, elicitation_callback=callback, cache=None, **more) as client:
        client.asked = asked
        yield client


async def call(client, name, **args):
    """Call a tool and return its value; of an error its text."""
    result = await client.call_tool(name, args)
    return result.content[0].text if result.is_error else result.structured_content


def planned(scenario, *hello_steps):
    """Let requests become a goal of two actions, by the model of the environment."""
    hello = action("hello", effects=["hello_there"], check="test -f hello.txt", files=["hello.txt"])
    world = action("world", needs=["hello_there"], effects=["world_there"], check="test -f world.txt")
    steps = hello_steps or (write("hello.txt", "hello\n"),)
    cassette = scenario.cassette(hello=[*steps], world=[write("world.txt", "world\n")])
    calls = [create_goal_call("greeting", "hello_there", "world_there"), create_actions_call("greeting", hello, world)]
    scenario.environ["SCAFFOLD_MODEL"] = add_planner(cassette, calls)


@pytest.mark.slow
@ERAS
async def test_reading_is_free_and_the_rest_needs_consent(scenario, era):
    """BX-19: a client of either era sees tools and resources; without consent nothing is started."""
    async with client_of(scenario, era=era) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools if tool.annotations.read_only_hint} == READING
        assert "read-only" in client.instructions
        assert await call(client, "list_runs") == {"runs": [], "more": 0}
        assert "there is no run in this repository yet" in await call(client, "run_status")
        assert "--allow-start" in await call(client, "start_run", request="do it")
        assert "--allow-steer" in await call(client, "stop_run")
        assert "invalid arguments" in await call(client, "run_status", nonsense=1)
        assert "invalid arguments" in await call(client, "wait_for_run", timeout_s=0)
        with pytest.raises(MCPError, match="there is no tool `rm`"):
            await client.call_tool("rm", {})
        [content] = (await client.read_resource("scaffold://runs")).contents
        assert json.loads(content.text) == {"runs": [], "more": 0}
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("scaffold://../etc")


@pytest.mark.slow
@ERAS
async def test_the_user_is_asked_and_a_refusal_starts_nothing(scenario, era):
    """BX-19: with the request; what the user agreed to is done, which fails here without a model."""
    async with client_of(scenario, era=era, answer={"agree": False}) as client:
        assert "did not agree" in await call(client, "start_run", request="greet the world")
        assert await call(client, "list_runs") == {"runs": [], "more": 0}
        assert "greet the world" in client.asked[0]
    async with client_of(scenario, era=era, answer={"agree": True}) as client:
        assert "no model is configured" in await call(client, "start_run", request="greet the world", tier="builder")


@pytest.mark.slow
async def test_with_flags_a_client_steers_a_run_to_its_evidence(scenario):
    """BX-19: stop, resume, a message, the answer to a question; an approval is none of a client's matters."""
    question = {"name": "ask_human", "args": {"question": "Which?", "options": []}}
    planned(scenario, question, write("hello.txt", "hello\n"))
    scenario.configure(inbox={"wait_s": 60})
    async with client_of(scenario, "--allow-start", "--allow-steer") as client:
        assert "read-only" not in client.instructions
        run = (await call(client, "start_run", request="greet", tier="builder"))["run"]["id"]
        waits = await call(client, "wait_for_run", run=run)
        assert [item["text"] for item in waits["inbox"]] == ["Which?"]
        sent = await call(client, "send_message", action="world", text="be brief")
        assert sent == {"run": run, "action": "world", "attempt": None}
        stopped = await call(client, "stop_run", run=run)
        assert stopped["run"]["status"] == "paused", stopped
        assert (await call(client, "resume_run", budget_usd=5))["run"]["is_live"]
        [item] = (await call(client, "wait_for_run", run=run))["inbox"]
        assert (await call(client, "answer_question", item=item["id"], answer="hello"))["state"] == "answered"
        assert "is not an item" in await call(client, "answer_question", item="nope", answer="x")
        reports = []

        async def report(progress, _total, _message):
            reports.append(progress)

        result = await client.call_tool("wait_for_run", {"run": run}, progress_callback=report)
        assert result.structured_content["run"]["status"] == "completed", result
        assert reports == sorted(set(reports))
        evidence = await call(client, "get_evidence", run=run)
        assert [(fact["name"], fact["state"]) for fact in evidence["goals"][0]["facts"]] == [
            ("hello_there", "holds"),
            ("world_there", "holds"),
        ]
        actions = await call(client, "list_actions", status="completed")
        assert [each["key"] for each in actions["actions"]] == ["hello", "world"]
        assert (await call(client, "get_action", action="hello"))["facts"][0]["evidence"]
        assert "cannot be resumed" in await call(client, "resume_run", run=run)


class Wire:
    """Speaks the newer protocol to `scaffold mcp` line by line."""

    def __init__(self, process):
        self.process = process
        self.raw = RawEditor(process)
        self.number = 0

    async def request(self, method, meta=ENVELOPE, **params):
        self.number += 1
        params["_meta"] = meta
        await self.raw.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while (answer := await self.raw.answer()).get("id") != self.number:
            pass
        return answer


@pytest.mark.slow
def test_a_client_that_dies_with_both_pipes_ends_the_server_in_silence(scenario):
    """BX-19: what was asked before has nobody to be answered to."""
    process = subprocess.Popen(
        scenario.command("mcp"),
        cwd=scenario.repo,
        env=scenario.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        process.stdin.write(json.dumps(listing).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.write((json.dumps(listing).encode() + b"\n") * 50)
        process.stdin.flush()
        process.stdout.close()
        process.stdin.close()
        assert process.wait(COMMAND_S) == 0
        assert process.stderr.read() == b""


@asynccontextmanager
async def wire_to(scenario, *flags):
    process = await scenario.spawn("mcp", *flags, stdin=subprocess.PIPE, limit=50_000_000)
    wire = Wire(process)
    yield wire
    process.stdin.close()
    code = await asyncio.wait_for(process.wait(), PATIENCE_S)
    wire.errors = (await process.stderr.read()).decode()
    assert code in {0, -signal.SIGKILL}, wire.errors


async def until(wire, task, status):
    """Poll a task until it has a status."""
    for _ in range(300):
        found = (await wire.request("tasks/get", taskId=task))["result"]
        if found["status"] == status:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(found)


@pytest.mark.slow
async def test_a_run_is_a_task_that_outlives_the_server(scenario):
    """BX-19: kill -9 of the server; another one knows the task, passes on the answer to its question."""
    question = {"name": "ask_human", "args": {"question": "Which greeting?", "options": []}}
    planned(scenario, question, write("hello.txt", "hello\n"))
    scenario.configure(inbox={"wait_s": 60})
    async with wire_to(scenario, "--allow-start") as wire:
        started = await wire.request("tools/call", name="start_run", arguments={"request": "greet", "tier": "builder"})
        task = started["result"]
        assert (task["resultType"], task["status"]) == ("task", "working")
        wire.process.kill()
        await wire.process.wait()
    async with wire_to(scenario) as wire:
        waits = await until(wire, task["taskId"], "input_required")
        [(item, asked)] = waits["inputRequests"].items()
        deaf = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
        assert (await wire.request("tasks/get", meta=deaf, taskId=task["taskId"]))["result"]["status"] == "working"
        assert asked["params"]["message"] == "Which greeting?"
        answer = {item: {"action": "accept", "content": {"answer": "hello"}}, "unknown": {"action": "decline"}}
        update = {"taskId": task["taskId"], "inputResponses": answer}
        assert (await wire.request("tasks/update", meta=deaf, **update))["error"]["code"] == -32602
        assert "error" not in await wire.request("tasks/update", **update)
        ended = await until(wire, task["taskId"], "completed")
        assert ended["result"]["structuredContent"]["run"]["status"] == "completed"
        assert (await wire.request("tasks/get", taskId=task["taskId"][:4]))["error"]["code"] == -32602
        assert (await wire.request("tasks/get", taskId=""))["error"]["code"] == -32602
        waited = await wire.request("tools/call", name="wait_for_run", arguments={})
        assert waited["result"]["structuredContent"]["run"]["status"] == "completed"
        assert (await wire.request("tasks/cancel", taskId=task["taskId"]))["error"]["code"] == -32602
    assert wire.errors == ""


@pytest.mark.slow
async def test_a_consent_counts_for_one_call_with_its_arguments(scenario):
    """BX-19: a state that is made up, repeated, or sent with other arguments starts nothing."""
    agreed = {"consent": {"action": "accept", "content": {"agree": True}}}
    async with wire_to(scenario) as wire:

        async def stop(run, **more):
            return await wire.request("tools/call", name="stop_run", arguments={"run": run}, **more)

        asked = (await stop("a"))["result"]
        assert asked["resultType"] == "input_required"
        assert "Stop run a" in asked["inputRequests"]["consent"]["params"]["message"]
        state = asked["requestState"]
        for made_up in ("nonsense", state[:-4] + "AAAA"):
            assert (await stop("a", requestState=made_up, inputResponses=agreed))["error"]["code"] == -32602
        assert (await stop("b", requestState=state, inputResponses=agreed))["error"]["code"] == -32602
        done = (await stop("a", requestState=state, inputResponses=agreed))["result"]
        assert "there is no run in this repository yet" in done["content"][0]["text"]
        again = (await stop("a", requestState=state, inputResponses=agreed))["result"]
        assert again["resultType"] == "input_required"
        refused = await stop("a", inputResponses=agreed)
        assert refused["result"]["resultType"] == "input_required"
    assert wire.errors == ""


@pytest.mark.slow
async def test_a_client_that_sends_rubbish_gets_protocol_errors(scenario):
    """BX-19: no JSON, no object, long lines and unknown methods are answered; the server works on."""
    async with wire_to(scenario) as wire:
        for line, code in (
            (b"{nonsense", -32700),
            ([], -32600),
            ({"id": 1, "method": 5}, -32600),
            ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
            (b'{"a":"' + b"x" * 50_000_000 + b'"}', -32600),
            ({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"_meta": ENVELOPE}}, -32602),
            ({"jsonrpc": "2.0", "id": 3, "method": "no/such", "params": {"_meta": ENVELOPE}}, -32601),
        ):
            await wire.raw.send(line)
            answer = await wire.raw.answer()
            assert answer["error"]["code"] == code, answer
        assert (await wire.request("server/discover"))["result"]["capabilities"]["extensions"] == {TASKS: {}}
    assert wire.errors == ""


@pytest.mark.slow
async def test_over_http_only_those_who_know_the_address_are_served(scenario):
    """BX-19: the address has a secret; pages of browsers are refused by Host and Origin."""
    process = await asyncio.create_subprocess_exec(
        *scenario.command("mcp", "--http", "0"), cwd=scenario.repo, env=scenario.environ, stderr=subprocess.PIPE
    )
    url = (await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)).decode().removeprefix("serving at ").strip()
    try:
        async with Client(url) as client:
            assert len((await client.list_tools()).tools) == 13
        host, _, rest = url.removeprefix("http://").partition("/")
        port = int(host.partition(":")[2])
        foreign = [
            "http://evil.example",
            "null",
            "",
            f"https://{host}",
            f"http://{host}.evil.example",
            f"http://{host}/",
        ]
        foreign += [f"http://127.0.0.1:{port + 1}", "http://localhost", f"http://[::1]:{port}", f"http://{host}, x"]
        for origin in (*foreign, f"http://{host}\r\nOrigin: http://evil.example"):
            assert await http_status(host, f"/{rest}", Origin=origin) == 403, origin
        others = ["evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.:{port}", f"127.1:{port}"]
        for name in (*others, f"127.0.0.1:{port + 1}", f"{host}.evil.example", f"[::1]:{port}", f"u@{host}", ""):
            assert await http_status(host, f"/{rest}", Host=name) in {400, 421}, name
        assert await http_status(host, f"/{rest}", Host=f"{host}\r\nHost: evil.example") == 400
        for name in (host, f"localhost:{port}"):
            assert await http_status(host, f"/{rest}", Host=name, Origin=f"http://{name}") not in {403, 421}
        assert await http_status(host, "/mcp") == 404
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), PATIENCE_S)
    assert "Traceback" not in (await process.stderr.read()).decode()


async def http_status(host, path, **headers):
    """Return the status of a POST with these headers."""
    reader, writer = await asyncio.open_connection(*host.split(":"))
    lines = {"Host": host, "Content-Type": "application/json", "Content-Length": "2", "Connection": "close", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n{{}}".encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


@pytest.mark.slow
async def test_a_client_that_leaves_while_a_run_starts_leaves_a_run_that_goes_on(scenario):
    """BX-19: the server ends after the command that starts the run, and nothing is left half started."""
    planned(scenario)
    async with wire_to(scenario, "--allow-start") as wire:
        params = {"name": "start_run", "arguments": {"request": "greet", "tier": "builder"}, "_meta": ENVELOPE}
        await wire.raw.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert wire.errors == ""
    assert wait_until(lambda: scenario.status()["run"]["status"] == "completed"), scenario.status()["run"]
