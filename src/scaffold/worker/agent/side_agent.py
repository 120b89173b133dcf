"""Agents that advise on an attempt (critic, drafter, second reviewer, learner): watched, and paid from its budget."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.io_port import AgentIO
from scaffold.agent.journal import Journal
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller, Delta, RetryWait
from scaffold.core.tool import Tool
from scaffold.worker.agent.agent_source import AgentSource, booked_as
from scaffold.worker.agent.role_agents import new_agent
from scaffold.worker.agent.watchdog import NoProgress, RepeatGuard, WatchedAgent, worktree_fingerprint
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

SideRole = Literal["critic", "drafter", "reviewer", "learner"]
MAX_REQUESTS = 40
"""The most model requests in one turn; reading the code around a change takes several."""
TELL_AFTER_S = 5.0
"""Shorter waits are not reported."""
PROMPTS: Mapping[SideRole, str] = {
    "critic": "critic",
    "drafter": "drafter",
    "reviewer": "second_reviewer",
    "learner": "learner",
}
"""The prompt of each role; `reviewer` has another name because an action may have that role, too."""


def no_tools(_: Journal) -> Iterable[Tool]:
    """Return no tools."""
    return ()


class SideAgent:
    """One conversation with an adviser, recorded in the action's journal."""

    def __init__(
        self,
        workspace: AttemptWorkspace,
        records: AttemptRecords,
        source: AgentSource,
        role: SideRole,
        *,
        event: str | None = None,
        tools: Callable[[Journal], Iterable[Tool]] = no_tools,
    ) -> None:
        """`tools` gets the journal and returns what the agent may call."""
        self._records = records
        self._role = role
        pulse, task = records.activity, records.task
        run, attempt, key = task.run, task.attempt, task.action.key
        self.journal = records.open_journal(role=role)
        own = run.settings.agent_model(role)
        repeats = RepeatGuard(partial(worktree_fingerprint, workspace.git))
        agent = new_agent(
            source,
            tools=tuple(map(pulse.guard, tools(self.journal))),
            brief=AgentSpec(
                caller=Caller(role=role, action=key, attempt=attempt.number, event=event),
                system=system_prompt(PROMPTS[role], folders=run.settings.planning.prompts, notice=self.warn),
                max_requests=MAX_REQUESTS,
                effort=own.effort_of(role),
                compaction=run.settings.model.compaction,
                whole_prompt=True,
            ),
            io=AgentIO(on_delta=self._on_delta, incoming=repeats, watch=repeats.watch, redactor=records.redactor),
            records=AgentRecords(
                journal=self.journal,
                budget=records.open_budget(role, booked_as(source, own)),
                paid=records.paid_replies(own.name),
            ),
        )
        self._tells_waits = own.name != run.settings.model.name
        self._watched = WatchedAgent(agent, pulse, repeats, idle_s=run.settings.limits.idle_s)

    def _on_delta(self, delta: Delta) -> None:
        # No one watches an adviser's own model, so the run says once that it waits for it.
        self._records.activity.on_delta(delta)
        if self._tells_waits and isinstance(delta, RetryWait) and delta.seconds > TELL_AFTER_S:
            self._tells_waits = False
            key, waits = self._records.task.action.key, f"{delta.seconds:.0f} s at least"
            self.warn(f"{key} waits for the model of its {self._role}, for {waits}: {delta.reason}")

    async def turn(self, prompt: str) -> TurnResult | NoProgress:
        """Send `prompt`, without secrets, and return the result; NoProgress if the agent stays idle after a nudge."""
        return await self._watched.turn(self._records.redactor.clean(prompt))

    def warn(self, text: str) -> None:
        """Add a warning to the run and to the journal."""
        self.journal.note("notice", text=text)
        self._records.warn(text)
