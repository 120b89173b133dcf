"""The extensions that the agent of an attempt works with: the run's hooks, plugins and MCP servers."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import structs

from scaffold.agent.extensions.access import connect_servers, hook_mode, open_hooks, open_plugins
from scaffold.agent.extensions.port import (
    NO_EXTENSIONS,
    AgentExtensions,
    TaskCompleted,
    WorktreeCreated,
    WorktreeRemoved,
    combined,
)
from scaffold.agent.extensions.setup import ExtensionSetup, HookSession
from scaffold.core.model import Action
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.host.startup import importing
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.workspace.workplace import Workplace

CHECK = "TaskCompleted hook"
UNCONFINED = "workers run plugins only in a sandbox, and no sandbox works here"
MAX_QUESTIONS = 10
"""Of servers, to the user, in one attempt; further ones are declined."""


@asynccontextmanager
async def attempt_extensions(
    place: Workplace, records: AttemptRecords, human: InboxApprover
) -> AsyncIterator[AgentExtensions]:
    """Yield the extensions of an attempt; hooks for its worktree run before and after.

    Plugins may not write in the worktree: nothing may change it while its work is checked.
    """
    run, attempt = records.task.run, records.task.attempt
    setup = ExtensionSetup(
        cwd=place.workspace.path,
        session=attempt.id,
        environ=os.environ,
        sandbox=place.sandbox,
        writes=False,
        redactor=records.redactor,
        tell=records.warn,
    )
    hooks = open_hooks(
        setup,
        run.settings.extensions,
        HookSession(
            environ=place.environ,
            project=place.workspace.path,
            transcript=str(records.run_context.journal(*records.task.journal_names)),
            mode=lambda: hook_mode("default", yolo=run.settings.permissions.yolo),
        ),
    )
    await hooks.announce(WorktreeCreated(attempt.id))
    try:
        plugins = await _start_plugins(records, setup)
        try:
            yield combined(hooks, plugins, _connect_servers(human, records))
        finally:
            await plugins.close()
    finally:
        await hooks.announce(WorktreeRemoved(attempt.id))


async def _start_plugins(records: AttemptRecords, setup: ExtensionSetup) -> AgentExtensions:
    settings = records.task.run.settings.plugins
    if settings.workers and setup.sandbox is None:
        setup.tell(UNCONFINED)
        return NO_EXTENSIONS
    return await open_plugins(setup, network=settings.network, only=settings.workers)


def _connect_servers(human: InboxApprover, records: AttemptRecords) -> AgentExtensions:
    run = records.task.run
    socket = records.run_context.mcp_socket(run.id)
    # Without a socket, the run's owner has said why there are no servers.
    if not run.settings.mcp.workers or not socket.exists():
        return NO_EXTENSIONS

    return connect_servers(
        socket,
        _Questions(human, records).ask,
        lambda error: records.warn(f"workers do not reach the MCP servers: {error}"),
    )


class _Questions:
    """Passes questions of servers on to the inbox."""

    def __init__(self, human: InboxApprover, records: AttemptRecords) -> None:
        self._human = human
        self._records = records
        self._asked = 0

    async def ask(self, question: Any) -> str | None:
        """Return the user's words; None if nobody is asked."""
        self._asked += 1
        # With `--yolo` no human is expected to answer, and a question would only block the action.
        if self._asked > MAX_QUESTIONS or self._records.task.run.settings.permissions.yolo:
            return None
        with importing():
            from scaffold.extensions.mcp.offers import asked_text, suggested_answers
        return await self._human.answer(asked_text(question), suggested_answers(question))


async def accepted_by_hooks(extensions: AgentExtensions, action: Action, found: Verification) -> Verification:
    """Return the verification of work that passed, with a failure if a hook does not take it as completed."""
    completed = TaskCompleted(action.key, action.description)
    refused = await extensions.announce(completed) if found.passed else ""
    if not refused:
        return found
    return structs.replace(found, results=(*found.results, CheckResult(name=CHECK, verdict="fail", detail=refused)))
