"""An editor that speaks the Agent Client Protocol, made of the SDK's client, and the real `ralph acp`."""

import asyncio
import asyncio.subprocess
import json
import subprocess
from contextlib import asynccontextmanager

import yaml
from acp import PROTOCOL_VERSION, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from support.scenario import PATIENCE_S

LIMIT = 50_000_000
NOTE = "\n\n> note: "


class Editor:
    """Keeps the updates and questions; `answers` are the options it chooses, one after the other; None waits."""

    def __init__(self):
        self.updates = []
        self.questions = []
        self.answers = []
        self.asked = asyncio.Event()
        self.agent = None

    def on_connect(self, conn):
        self.agent = conn

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((session_id, tool_call, options))
        self.asked.set()
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        outcome = DeniedOutcome(outcome="cancelled")
        if answer != "cancelled":
            outcome = AllowedOutcome(outcome="selected", option_id=answer)
        return RequestPermissionResponse(outcome=outcome)

    def of(self, kind):
        return [update for _, update in self.updates if update.session_update == kind]

    @property
    def said(self):
        """What the agent said, and the notes of the program, in pieces."""
        return [update.content.text for update in self.of("agent_message_chunk")]

    @property
    def text(self):
        """What the agent said: a machine without a sandbox has notes of its own."""
        return "".join(text for text in self.said if not text.startswith(NOTE))

    @property
    def notes(self):
        return "".join(text for text in self.said if text.startswith(NOTE))

    @property
    def thoughts(self):
        return "".join(update.content.text for update in self.of("agent_thought_chunk"))

    def call(self, call_id):
        """Return the announcement of a call and what was said of it since."""
        kinds = (*self.of("tool_call"), *self.of("tool_call_update"))
        return [update for update in kinds if update.tool_call_id == call_id]

    async def new_session(self, cwd, **more):
        return await self.agent.new_session(cwd=str(cwd), mcp_servers=more.pop("mcp_servers", []), **more)

    async def say(self, session, words):
        return await self.agent.prompt(session_id=session, prompt=[text_block(words)])


@asynccontextmanager
async def editor_of(scenario, cassette, *flags):
    """Start `ralph acp` with a cassette, and yield the editor and the process; the agent is initialized."""
    path = scenario.home / "cassette.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": cassette}))
    process = await start_agent(scenario, "--model", f"cassette:{path}", *flags)
    editor = Editor()
    connection = ClientSideConnection(editor, process.stdin, process.stdout, use_unstable_protocol=True)
    try:
        editor.initialized = await editor.agent.initialize(protocol_version=PROTOCOL_VERSION)
        yield editor, process
    finally:
        if process.stdin.can_write_eof():
            process.stdin.close()
        await asyncio.wait_for(process.wait(), PATIENCE_S)
        editor.errors = (await process.stderr.read()).decode()
        await connection.close()


async def start_agent(scenario, *flags):
    return await asyncio.create_subprocess_exec(
        *scenario.command("ralph", "acp", *flags),
        cwd=scenario.repo,
        env=scenario.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LIMIT,
    )


class RawEditor:
    """Sends lines of any kind to the real `ralph acp`, and reads its answers."""

    def __init__(self, process):
        self.process = process

    async def send(self, line):
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(data + b"\n")
        await self.process.stdin.drain()

    async def answer(self):
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S))
