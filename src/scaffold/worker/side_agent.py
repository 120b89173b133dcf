"""Agents that advise on an attempt (critic, drafter): without tools, watched, and paid from its budget."""

from functools import partial
from typing import Literal

from scaffold.agent.journal import JournalFile
from scaffold.agent.ports import AgentIO
from scaffold.agent.prompts import system_prompt
from scaffold.agent.turn_loop import Agent, AgentRecords, AgentSpec, TurnResult
from scaffold.core.conversation import Caller
from scaffold.core.ports import Model
from scaffold.host.identity import own_identity
from scaffold.run.notices import warn
from scaffold.store.spending.run_budget import RunBudget
from scaffold.worker.activity import WaitAwareBudget
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.watchdog import NoProgress, RepeatGuard, WatchedAgent, worktree_fingerprint


class SideAgent:
    """One conversation with a critic or drafter, recorded in the action's journal."""

    def __init__(
        self, context: AttemptContext, model: Model, role: Literal["critic", "drafter"], *, event: str | None = None
    ) -> None:
        self._context = context
        run_context, run, attempt, key = (
            context.run_context,
            context.task.run,
            context.task.attempt,
            context.task.action.key,
        )
        fields = {"run": run.id, "action": key, "attempt": attempt.number, "role": role}
        self.journal = JournalFile(
            run_context.journal(context.task.goal.name, key),
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
        agent = Agent(
            model=model,
            tools=(),
            brief=AgentSpec(
                caller=Caller(role=role, action=key, attempt=attempt.number, event=event),
                system=system_prompt(role, folders=run.settings.planning.prompts, notice=self.warn),
            ),
            io=AgentIO(on_delta=context.activity.on_delta, redactor=run_context.redactor),
            records=AgentRecords(journal=self.journal, budget=WaitAwareBudget(budget, context.activity)),
        )
        repeats = RepeatGuard(partial(worktree_fingerprint, context.workspace.git, context.workspace.base))
        self._watched = WatchedAgent(agent, context.activity, repeats, idle_s=run.settings.limits.idle_s)

    async def turn(self, prompt: str) -> TurnResult | NoProgress:
        """Send `prompt`, without secrets, and return the result; NoProgress if the agent stays idle after a nudge."""
        return await self._watched.turn(self._context.run_context.redactor.clean(prompt))

    def warn(self, text: str) -> None:
        """Add a warning to the run and to the journal."""
        self.journal.note("notice", text=text)
        warn(self._context.run_context, self._context.task.run.id, text)
