"""The MCP servers of a worker: those of its run, which the owner's process has for all of them."""

from collections.abc import Callable

from scaffold.agent.extensions.server_access import connect_servers
from scaffold.core.tool import Tool
from scaffold.host.startup import lazy_import
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover

QUESTIONS = "scaffold.extensions.mcp.question_text:asked_text"
SUGGESTIONS = "scaffold.extensions.mcp.question_text:suggested_answers"
MAX_QUESTIONS = 10
"""The most questions of servers to the user in one attempt; further ones are declined."""


async def server_tools(human: InboxApprover, records: AttemptRecords) -> tuple[Tool, ...]:
    """Return the tools of the run's servers, not gated; empty if its settings name none."""
    run = records.task.run
    if not run.settings.mcp.workers:
        return ()
    socket = records.run_context.mcp_socket(run.id)
    if not socket.exists():
        return ()  # the owner has said why there are none
    servers = await connect_servers(socket, _Questions(human, records).ask)
    tools = await servers.tools()
    if servers.trouble:
        records.warn(f"workers do not reach the MCP servers: {servers.trouble}")
    return tools


class _Questions:
    """Passes questions of servers on to the inbox."""

    def __init__(self, human: InboxApprover, records: AttemptRecords) -> None:
        self._human = human
        self._records = records
        self._asked = 0
        self._text: Callable[..., str] = lazy_import(QUESTIONS)
        self._suggestions: Callable[..., tuple[str, ...]] = lazy_import(SUGGESTIONS)

    async def ask(self, question: object) -> str | None:
        """Return the user's answer; None if nobody is asked."""
        self._asked += 1
        # With `--yolo` no human is expected to answer, and a question would only block the action.
        if self._asked > MAX_QUESTIONS or self._records.task.run.settings.permissions.yolo:
            return None
        return await self._human.answer(self._text(question), self._suggestions(question))
