"""A run before it starts: its goals and actions, a recommended number of agents, its estimated cost."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from scaffold.cli.render.cost_terms import run_terms
from scaffold.cli.render.terminal.style import format_finding
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.core.plan import GoalSpec, Plan
from scaffold.core.printable_text import count_of, printable
from scaffold.core.run_settings import RunSettings
from scaffold.core.spending import PastCost
from scaffold.host.sandbox.level import DetectedLevel, level_limits
from scaffold.orchestrator.planning.apply_plan import stored_plan, with_agreed_actions
from scaffold.plan.analysis.agent_count import advise_agent_count
from scaffold.plan.analysis.lint import lint
from scaffold.store.database import Store

MAX_ACTIONS = 40
"""Actions of a goal that are listed; the rest are counted."""


class RunPreview(Struct, frozen=True):
    """A run that has not started, and its plan."""

    run: Run
    plan: Plan
    past: Sequence[PastCost] = ()
    """The cost of an action in each earlier run with this model."""

    def text(self, layout: Layout) -> str:
        """Return the preview as text."""
        run, lines = self.run, list[str]()
        for goal in self.plan.goals:
            lines += layout.wrap("", f"{goal.name}: {', '.join(goal.goal_state)}", hang=4)
            actions = list(_action_tree(goal))
            for indent, text in actions[:MAX_ACTIONS]:
                lines += layout.wrap(indent, text, hang=len(indent) + 4)
            if len(actions) > MAX_ACTIONS:
                lines.append(f"  and {count_of(len(actions) - MAX_ACTIONS, 'more action')}")
        # Findings of a file were printed when it was read.
        for finding in lint(self.plan).findings if not run.settings.planning.plan_path else ():
            lines += layout.prose("", format_finding(finding, "plan"), hang=0)
        lines += self._shape_lines(layout)
        if chosen := run.settings.choice.text(run.settings.tier.name):
            lines += layout.prose("", chosen)
        # As it will be stored when the run starts.
        settings = with_agreed_actions(run.settings, self.plan.actions)
        for line in run_terms(settings, self.plan.actions, run.created_at, self.past):
            lines += layout.prose("", line)
        base = f"{run.base_branch or 'a detached head'} at {run.base_sha[:8]}"
        lines += layout.wrap("", f"lands on {run.session_branch}, from {base}", hang=2)
        return printable("\n".join(lines))

    def _shape_lines(self, layout: Layout) -> Iterator[str]:
        actions, goals, agents = len(self.plan.actions), len(self.plan.goals), self.run.agents
        shape = f"{count_of(actions, 'action')} in {count_of(goals, 'goal')}, up to {count_of(agents, 'agent')} at once"
        yield from layout.prose("", shape)
        if actions > 1:
            # Steps that follow each other are counted at their compound: the chain is read as one line.
            parents = {action.key: action.parent for action in self.plan.actions if action.workspace == "parent"}
            parts = [
                (key, len(list(steps)))
                for key, steps in groupby(lint(self.plan).critical_path, key=lambda each: parents.get(each) or each)
            ]
            chain = " -> ".join(f"{key} ({count} steps)" if count > 1 else key for key, count in parts) or "none"
            yield from layout.wrap("  ", f"longest chain {chain}", hang=4)
            run = self.run
            if run.advice and not run.settings.choice.fixed_agents:
                yield from layout.prose("  ", f"{count_of(run.agents, 'agent')}: {run.advice}", hang=4)
            else:
                advice = advise_agent_count(self.plan, goal_agents=run.settings.limits.goal_agents)
                yield from layout.prose("  ", f"{count_of(advice.agents, 'agent')} recommended: {advice.why}", hang=4)


def stored_preview(store: Store, run: Run) -> RunPreview:
    """Return the preview of a stored run."""
    past = store.bookings.past_costs(run.settings.model.name, but=run.id)
    return RunPreview(run, stored_plan(store, run), past)


def _action_tree(goal: GoalSpec) -> Iterator[tuple[str, str]]:
    """Yield (indentation, text) of each action below its compound; steps are only counted."""
    steps = Counter(action.parent for action in goal.actions if action.workspace == "parent")

    def below(parent: ActionKey | None, indent: str) -> Iterable[tuple[str, str]]:
        for action in goal.actions:
            if action.parent == parent:
                note = " (compound)" if action.kind == "compound" else ""
                if count := steps[action.key]:
                    note = f" ({', '.join([*filter(None, [action.title]), count_of(count, 'step')])})"
                yield indent, f"{action.key}{note} -> {', '.join(action.effects) or 'nothing'}"
                if not steps[action.key]:
                    yield from below(action.key, f"{indent}  ")

    yield from below(None, "  ")


def sandbox_summary(finding: DetectedLevel, settings: RunSettings) -> str:
    """Return one line about the sandbox of the commands of a run's agents."""
    if settings.sandbox.mode != "off" and finding.level != "none":
        better = f" ({finding.problem}; to improve it, {finding.fix})" if finding.problem else ""
        limits = level_limits(finding.level)
        can = "; ".join(limits) if limits else f"network {settings.sandbox.network}"
        return f"sandbox {finding.level}, {can}{better}"
    why = "turned off" if settings.sandbox.mode == "off" else finding.problem
    fix = "" if settings.sandbox.mode == "off" else f"; to get one, {finding.fix}"
    if settings.permissions.yolo:
        return f"warning: no sandbox ({why}): commands can do everything you can, without asking{fix}"
    return f"no sandbox ({why}): agents' commands wait for your approval in `scaffold inbox`{fix}"
