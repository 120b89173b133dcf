"""Our tools as an MCP server: used as a program uses them, inside a sandbox."""

import asyncio
import json
import os
import subprocess  # noqa: TID251 - the owner and the relay are processes of their own
import sys
from pathlib import Path

import pytest
from msgspec import structs

from builders import bubblewrap_or_skip
from scaffold.core.conversation import ToolResult
from scaffold.core.tool import Tool, ToolOutput
from scaffold.executors import tool_relay
from scaffold.executors.tool_server import offer_tools
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from support import mcp_client

CLIENT = Path(mcp_client.__file__)


async def _unused(_args):
    return ToolOutput("")


ECHO = Tool(name="echo", description="Says it again.", schema={"type": "object"}, category="mcp", run=_unused)


async def echo(call):
    if call.name != "echo":
        return ToolResult(call.id, call.name, f"There is no tool `{call.name}`.", failed=True)
    return ToolResult(call.id, call.name, json.dumps(dict(call.args)))


async def use(server, sandbox, folder, *calls):
    """Run a client of the server, in the sandbox; return what it saw, or what it wrote to standard error."""
    words = (sys.executable, "-I", str(CLIENT), json.dumps(server.command), json.dumps(calls))
    ended = await run_command(
        words,
        cwd=folder,
        env=child_environment(os.environ),
        timeout_s=60,
        containment=Containment(sandbox=sandbox) if sandbox else Containment(),
    )
    return json.loads(ended.stdout) if ended.exit_code == 0 else ended.stderr.decode()


@pytest.fixture
def private(tmp_path):
    """The folder of temporary files of a run, which its commands do not see."""
    folder = tmp_path.resolve() / "private"
    folder.mkdir()
    return folder


@pytest.fixture
def confinement(tmp_path, private):
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    temporary = private / "own"
    return Confinement(writable=(folder,), temporary=temporary, hidden=(private,), readable=(CLIENT,), network="none")


@pytest.fixture(params=["bubblewrap", "landlock", "none"])
async def sandbox(request, confinement):
    if request.param == "none":
        return None
    if request.param == "bubblewrap":
        return SandboxSpec("bubblewrap", confinement, program=(await bubblewrap_or_skip()).program)
    if landlock.unsupported_reason() or not landlock.has_broker():
        pytest.skip("needs Landlock, and a kernel with its broker")
    return SandboxSpec("landlock", structs.replace(confinement, network="loopback"))


async def test_a_program_in_its_sandbox_calls_our_tools(sandbox, confinement, private):
    """AL-20: where commands have no Unix sockets, by a port of loopback."""
    async with offer_tools([ECHO], echo, sandbox) as (server, way):
        seen = await use(server, way, confinement.writable[0], ("echo", {"said": "é"}), ("nope", {}))
    assert seen == {
        "tools": ["echo"],
        "answers": [['{"said": "\\u00e9"}', False], ["There is no tool `nope`.", True]],
        "code": 0,
    }
    assert [each.name for each in private.iterdir()] in ([], ["own"])


async def test_a_turn_does_not_reach_the_tools_of_another_one(sandbox, confinement):
    """AL-20: not by its address either, which it may have guessed."""
    if sandbox is None:
        pytest.skip("without a sandbox, a command reaches all that its user does")
    folder = confinement.writable[0]
    async with offer_tools([ECHO], echo, sandbox) as (other, _), offer_tools([ECHO], echo, sandbox) as (own, way):
        assert isinstance(await use(own, way, folder), dict)
        said = await use(other, way, folder, ("echo", {}))
    assert isinstance(said, str)
    assert "EOFError" in said  # from the client: its server could not start


def _port_of(server):
    return int(Path(server.command[-1]).read_bytes().split()[0])


async def test_a_port_answers_nobody_without_its_token(confinement):
    """AL-20: every user of the machine can connect to a port of loopback."""
    sandbox = SandboxSpec("landlock", confinement)
    async with offer_tools([ECHO], echo, sandbox) as (server, _):
        port = _port_of(server)
        for token in (b"", b"x" * 32, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(token)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()


async def test_what_a_call_raises_ends_the_turn(tmp_path):
    """AL-20, AL-24: a human has to decide, so the program is not answered."""

    class Decide(Exception):
        pass

    async def ask(_call):
        raise Decide

    async def turn():
        async with offer_tools([ECHO], ask, None) as (server, _):
            await use(server, None, tmp_path, ("echo", {}))

    with pytest.raises(Decide):
        await turn()


class Connection:
    """A program's side, byte for byte, behind the relay."""

    def __init__(self, reader, writer):
        self._reader = reader
        self.writer = writer

    def send(self, *messages):
        for each in messages:
            self.writer.write(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n")

    async def answer(self):
        return json.loads(await self._reader.readline())


@pytest.fixture
async def connected():
    """Return how to connect to a server; each connection ends with the test."""
    opened = []

    async def connect(server):
        opened.append(Connection(*await asyncio.open_unix_connection(server.command[-1])))
        return opened[-1]

    yield connect
    for each in opened:
        each.writer.close()


async def test_rubbish_gets_an_error_and_ends_nothing(connected):
    """AL-20: of a program that is broken, or of a model that writes its own calls."""
    deep = b'{"a":' * 150 + b"1" + b"}" * 150
    call = b'{"id":1,"method":"tools/call","params":'
    async with offer_tools([ECHO], echo, None) as (server, _):
        program = await connected(server)
        program.send(b"\xff\xfe\n", b"[]\n", b"\n", b'{"id":{}}\n', {"id": 9, "result": {}}, {"method": "no/such"})
        assert [(await program.answer())["error"]["code"] for _ in range(3)] == [-32700, -32600, -32600]
        program.send({"id": "x", "method": "resources/list"}, call + b'{"name":3}}\n', call + b"null}\n")
        assert [(await program.answer())["error"]["code"] for _ in range(3)] == [-32601, -32602, -32602]
        program.send(
            call + b'{"name":"echo","arguments":[1]}}\n', call + b'{"name":"echo","arguments":' + deep + b"}}\n"
        )
        assert [(await program.answer())["error"]["code"] for _ in range(2)] == [-32602, -32602]
        program.send({"id": 2, "method": "ping"}, {"id": 3, "method": "tools/call", "params": {"name": "echo"}})
        assert (await program.answer()) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert (await program.answer())["result"] == {"content": [{"type": "text", "text": "{}"}], "isError": False}


async def test_calls_run_one_by_one_and_a_cancelled_one_ends(connected):
    """AL-20: as those of one reply of a model; the server answers other requests meanwhile."""
    begun, ended = asyncio.Queue(), asyncio.Queue()

    async def wait(call):
        begun.put_nowait(call.args["n"])
        try:
            await asyncio.Event().wait()
        finally:
            ended.put_nowait(call.args["n"])

    async with offer_tools([ECHO], wait, None) as (server, _):
        program = await connected(server)
        for number in (1, 2):
            params = {"name": "echo", "arguments": {"n": number}}
            program.send({"id": number, "method": "tools/call", "params": params})
        assert await begun.get() == 1
        program.send({"id": 3, "method": "ping"})
        assert (await program.answer())["id"] == 3
        assert begun.empty()
        program.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        assert await begun.get() == 2
        assert await ended.get() == 1
        program.writer.close()  # who asked has gone
        assert await ended.get() == 2


def test_the_relay_ends_with_the_owner_of_the_tools():
    """AL-20: a program that outlives a killed owner calls nothing any more."""
    owner = (
        "import asyncio, sys\n"
        "from scaffold.executors.tool_server import offer_tools\n"
        "async def main():\n"
        "    async with offer_tools([], None, None) as (server, _):\n"
        "        print('\\0'.join(server.command), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE)
    command = process.stdout.readline().decode().rstrip("\n").split("\0")
    relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    relay.stdin.write(b'{"id":1,"method":"ping"}\n')
    relay.stdin.flush()
    assert json.loads(relay.stdout.readline())["result"] == {}
    process.kill()
    process.communicate()
    assert relay.stdout.read() == b""
    assert relay.wait() == 0
    relay.communicate()


def test_the_relay_imports_nothing_that_takes_time():
    """AL-20: programs wait for their servers, and some only for a moment."""
    code = f"import sys; exec(open({tool_relay.__file__!r}).read(), {{'__name__': 'relay'}}); print(*sys.modules)"
    bare = "import os, sys; print(*sys.modules)"
    loaded, known = (
        set(subprocess.check_output([sys.executable, "-I", "-S", "-c", each], text=True).split())
        for each in (code, bare)
    )
    assert loaded - known <= {"_socket", "_thread"}
