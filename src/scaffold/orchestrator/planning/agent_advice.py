"""How many agents a run's plan can use, computed when there is a plan, and again when it has grown."""

from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.core.plan import Plan
from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import RunLimits
from scaffold.orchestrator.planning.apply_plan import read_draft
from scaffold.plan.analysis.agent_count import AgentCountAdvice, advise_agent_count
from scaffold.plan.progress import PlanProgress
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext


def advice_for(
    plan: Plan, agents: int, limits: RunLimits, *, fixed: bool, progress: PlanProgress | None = None
) -> AgentCountAdvice | None:
    """Return how many agents to use, at most `agents`; None if the number is `fixed`, or if there is no plan."""
    if fixed or not plan.goals:
        return None
    return advise_agent_count(plan, limit=agents, goal_agents=limits.goal_agents, progress=progress)


class AgentAdvisor:
    """Keeps the number of agents of a run that this process owns; it grows with the plan and never shrinks."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._last_position: int | None = None

    def refresh(self) -> None:
        """Store the advice for the remaining work if actions were added since the last call."""
        store, run_id = self._context.store, self._run.id
        position = store.actions.last_position(run_id)
        if position == self._last_position:
            return
        self._last_position, run = position, store.runs.get(run_id)
        if run is None or (run.advised_agents is not None and run.agents == run.settings.tier.agents):
            return
        draft = read_draft(store, run)
        settings = run.settings
        agents, fixed = settings.tier.agents, settings.choice.fixed_agents
        advice = advice_for(draft.plan, agents, settings.limits, fixed=fixed, progress=draft.progress)
        if advice is None or advice.agents <= (run.advised_agents or 0):
            return
        with owner_transaction(store, self._run):
            store.runs.advise(run_id, advice.agents, advice.why, fence=self._run.fence)
            if run.advised_agents is not None:
                text = f"the plan has grown: up to {count_of(advice.agents, 'agent')} at once ({advice.why})"
                store.events.append(run_id, NoticeRaised("info", text))
