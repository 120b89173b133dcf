"""Agents that advise on an attempt (critic, drafter, second reviewer, learner): watched, and paid from its budget."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from scaffold.agent.journal import Journal, JournalFile
from scaffold.agent.ports import AgentIO
from scaffold.agent.prompts import system_prompt
from scaffold.agent.turn_loop import Agent, AgentRecords, AgentSpec, TurnResult
from scaffold.core.conversation import Caller
from scaffold.core.ports import Model
from scaffold.core.run_settings import Effort, RunSettings
from scaffold.core.tool import Tool
from scaffold.host.identity import own_identity
from scaffold.run.notices import warn
from scaffold.store.spending.run_budget import RunBudget
from scaffold.worker.activity import WaitAwareBudget
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.watchdog import NoProgress, RepeatGuard, WatchedAgent, worktree_fingerprint

SideRole = Literal["critic", "drafter", "reviewer", "learner"]
MAX_REQUESTS = 40
"""The model requests of one turn: reading the code around a change takes some."""
PROMPTS: Mapping[SideRole, str] = {
    "critic": "critic",
    "drafter": "drafter",
    "reviewer": "second_reviewer",
    "learner": "learner",
}
"""The prompt of each role: `reviewer` alone is also a role that an action may have."""


def _effort(settings: RunSettings, role: SideRole) -> Effort:
    """Return how much the adviser thinks; the second reviewer may have a model of its own."""
    reviewer = settings.planning.reviewer
    model = reviewer.model if role == "reviewer" and reviewer is not None else settings.model
    return model.effort_of(role)


def no_tools(_: Journal) -> Iterable[Tool]:
    """Return no tools."""
    return ()


class SideAgent:
    """One conversation with an adviser, recorded in the action's journal."""

    def __init__(
        self,
        context: AttemptContext,
        model: Model,
        role: SideRole,
        *,
        event: str | None = None,
        tools: Callable[[Journal], Iterable[Tool]] = no_tools,
    ) -> None:
        """`tools` gets the journal and returns what the agent may call."""
        self._context = context
        run_context, pulse, task = context.run_context, context.activity, context.task
        run, attempt, key = task.run, task.attempt, task.action.key
        fields = {"run": run.id, "action": key, "attempt": attempt.number, "role": role}
        self.journal = JournalFile(
            run_context.journal(*context.task.journal_names),
            clock=run_context.clock,
            fields=fields,
            redactor=run_context.redactor,
        )
        budget = RunBudget(
            run_context.store,
            attempt,
            limit_usd=run.settings.limits.budget_usd,
            clock=run_context.clock,
            owner=own_identity(),
        )
        repeats = RepeatGuard(partial(worktree_fingerprint, context.workspace.git, context.workspace.base))
        agent = Agent(
            model=model,
            tools=tuple(map(pulse.guard, tools(self.journal))),
            brief=AgentSpec(
                caller=Caller(role=role, action=key, attempt=attempt.number, event=event),
                system=system_prompt(PROMPTS[role], folders=run.settings.planning.prompts, notice=self.warn),
                max_requests=MAX_REQUESTS,
                effort=_effort(run.settings, role),
                compaction=run.settings.model.compaction,
                whole_prompt=True,
            ),
            io=AgentIO(on_delta=pulse.on_delta, incoming=repeats, watch=repeats.watch, redactor=run_context.redactor),
            records=AgentRecords(journal=self.journal, budget=WaitAwareBudget(budget, pulse)),
        )
        self._watched = WatchedAgent(agent, pulse, repeats, idle_s=run.settings.limits.idle_s)

    async def turn(self, prompt: str) -> TurnResult | NoProgress:
        """Send `prompt`, without secrets, and return the result; NoProgress if the agent stays idle after a nudge."""
        return await self._watched.turn(self._context.run_context.redactor.clean(prompt))

    def warn(self, text: str) -> None:
        """Add a warning to the run and to the journal."""
        self.journal.note("notice", text=text)
        warn(self._context.run_context, self._context.task.run.id, text)
