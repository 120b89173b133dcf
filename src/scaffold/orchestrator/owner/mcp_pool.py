"""The MCP servers of a run: one pool in the process of its owner, which all workers share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Self

from msgspec import structs

from scaffold.agent.extensions.access import open_servers
from scaffold.agent.extensions.setup import ExtensionSetup, ServerChoice
from scaffold.agent.messages.poller import StorePoller
from scaffold.config.trusted_extensions import mcp_files
from scaffold.core.model import InboxItem, Run
from scaffold.core.printable_text import join_limited
from scaffold.host.random_ids import new_id
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.run.resources.sandbox import SandboxPlace, open_checkout_sandbox, remove_temporary_folder

MAX_NAMED = 5
POOL = "mcp-pool"
"""The name of the pool's temporary folder."""


@asynccontextmanager
async def run_servers(context: RunContext, run: Run) -> AsyncIterator[None]:
    """Provide the run's workers with the servers that its settings name, while the block runs.

    The servers run in the user's checkout, read-only: the workers' changes are in worktrees.
    """
    tell = partial(warn, context, run.id)
    root = context.repository.root
    files = mcp_files(root, once=run.settings.mcp.trust_once, tell=tell)
    if not files:
        tell(f"`mcp.workers` names {join_limited(run.settings.mcp.workers, MAX_NAMED)}, but no file has MCP servers")
        yield
        return
    place = SandboxPlace(context.repository, context.cache, context.environ, context.temporary(run.id, POOL))
    async with AsyncExitStack() as stack:
        stack.callback(remove_temporary_folder, context, run, name=POOL)
        sandbox = await stack.enter_async_context(open_checkout_sandbox(run.settings.sandbox, place, root))
        approvals = await stack.enter_async_context(_InboxApprovals(context, run))
        setup = ExtensionSetup(
            cwd=root,
            session=run.id,
            environ=context.environ,
            sandbox=sandbox,
            writes=False,
            redactor=context.redactor,
            tell=tell,
        )
        choice = ServerChoice(
            files=files, only=run.settings.mcp.workers, needs_sandbox=True, socket=context.mcp_socket(run.id)
        )
        servers = await open_servers(setup, choice, approvals.ask)
        stack.push_async_callback(servers.close)
        yield


class _InboxApprovals:
    """Asks in the run's inbox about changed tools, and approves them once the user has."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._waiting.values():
            task.cancel()
        if self._waiting:
            await asyncio.wait(self._waiting.values())

    def ask(self, server: str, tools: Mapping[str, str], approve: Callable[[], None]) -> None:
        """Ask about these tools; an earlier question about the server no longer counts."""
        if (earlier := self._waiting.pop(server, None)) is not None:
            earlier.cancel()
        names = join_limited(tuple(tools), MAX_NAMED)
        warn(
            self._context,
            self._run.id,
            f"MCP server {server} has new or changed tools, which workers get once you approve them: {names}",
        )
        clean = self._context.redactor.clean_all
        item = InboxItem(
            id=new_id(),
            run_id=self._run.id,
            kind="approval",
            text=f"The MCP server {server} has new or changed tools: {names}. May agents see and call them?",
            detail=clean({"mcp_server": server, "tools": dict(tools)}),
            created_at=self._context.clock.now(),
        )
        self._waiting[server] = asyncio.create_task(self._approve_when_decided(item, approve))

    async def _approve_when_decided(self, item: InboxItem, approve: Callable[[], None]) -> None:
        store = self._context.store
        # An earlier owner may have been killed between the user's decision and the approval.
        decided = store.inbox.in_force(item)
        poller = StorePoller(store.data_version)
        while decided is None:
            tick = poller.tick()
            now = store.inbox.get(item.id)
            if now is not None and now.state in {"approved", "rejected"}:
                decided = now
                break
            if now is None or now.state != "open":
                with store.transaction(durable=True):
                    item = store.inbox.ask(structs.replace(item, id=new_id()))
            # The worker that starts next should find the tools that the user has just approved.
            await poller.past(tick)
        if decided.state == "approved":
            approve()
