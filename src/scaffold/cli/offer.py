"""What is offered before a run starts: its goals and actions, how many agents they deserve, what it may cost."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC

from msgspec import Struct

from scaffold.cli.findings import finding_lines
from scaffold.cli.safe import printable
from scaffold.cli.screen import WIDTH, clip
from scaffold.core.ids import Key
from scaffold.core.model import Run, Usage
from scaffold.core.money import dollars
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.llm.naming import parse_model
from scaffold.llm.registry import card
from scaffold.plan.advice import advise
from scaffold.plan.lint import lint
from scaffold.plan.rehearsal import WORKER_CAP

MOST_ACTIONS = 40
"""Actions that are listed for each goal; the rest is counted."""
USUAL = Usage(input_tokens=20_000, cached_input_tokens=16_000, output_tokens=600, requests=1)
REQUESTS = 20
"""What the work of one action takes, roughly: so many requests like that one."""
CHILDREN = 3
"""How many actions a compound is taken for that is to be broken down."""


class Offer(Struct, frozen=True):
    """A run that has not started, and its plan."""

    run: Run
    plan: Plan

    def text(self) -> str:
        """Return it in lines for a person."""
        return printable("\n".join([*self._goals(), *self._findings(), *self._shape(), *self._terms()]))

    def _goals(self) -> Iterator[str]:
        for goal in self.plan.goals:
            yield clip(f"{goal.name}: {', '.join(goal.goal_state)}", WIDTH)
            lines = list(_tree(goal))
            yield from lines[:MOST_ACTIONS]
            if len(lines) > MOST_ACTIONS:
                yield f"  and {len(lines) - MOST_ACTIONS} more actions"

    def _findings(self) -> Iterator[str]:
        if self.run.settings.plan_path:
            return  # they were told when the file was read
        for finding in lint(self.plan).findings:
            yield finding_lines(finding, "plan")

    def _shape(self) -> Iterator[str]:
        actions, goals, agents = len(self.plan.actions), len(self.plan.goals), self.run.settings.agents
        yield f"{counted(actions, 'action')} in {counted(goals, 'goal')}, up to {counted(agents, 'agent')} at once"
        if actions > 1:
            report = lint(self.plan)
            yield f"  at most {report.width} side by side, longest chain {_chain(report.critical_path)}"
            yield from self._advice()

    def _advice(self) -> Iterator[str]:
        """Yield how many agents it is worth, unless the run's cap is another one than that is reckoned with."""
        if self.run.settings.goal_agents == WORKER_CAP:
            advice = advise(self.plan)
            yield f"  worth {counted(advice.agents, 'agent')}: {advice.why}"

    def _terms(self) -> Iterator[str]:
        run, settings = self.run, self.run.settings
        cap = "no cap" if settings.budget_usd is None else f"at most {dollars(settings.budget_usd)}"
        yield f"model {settings.model} ({payer(settings.model)}), {estimate(run, self.plan)}, {cap}"
        yield f"lands on {run.session_branch}, from {run.base_branch or 'a detached head'} at {run.base_sha[:8]}"


def counted(number: int, noun: str) -> str:
    """Return a number of things, in words."""
    return f"{number} {noun}{'s' * (number != 1)}"


def payer(model: str) -> str:
    """Return who pays for the model, in words."""
    match parse_model(model).provider:
        case "cassette":
            return "replayed from a file, nobody pays"
        case "local":
            return "a server of your own, nobody sends a bill"
        case "codex":
            return "your subscription pays"
        case _:
            return "you pay by your key"


def estimate(run: Run, plan: Plan) -> str:
    """Return roughly what the plan's actions will cost, in words."""
    name = parse_model(run.settings.model)
    if name.provider in {"cassette", "local"}:
        return "no estimate needed"
    prices = card(name).prices
    if prices is None:
        return "its price is not known"
    usd = prices.cost_usd(USUAL, run.created_at.astimezone(UTC).date()) * REQUESTS * _attempts(plan.actions)
    return f"roughly {dollars(usd / 2)} to {dollars(usd * 2)}"


def _attempts(actions: Sequence[ActionSpec]) -> int:
    """Return for how many pieces of work the plan is taken."""
    parents = {action.parent for action in actions}
    open_ended = sum(action.kind == "compound" and action.key not in parents for action in actions)
    return sum(action.kind == "primitive" for action in actions) + CHILDREN * open_ended


def _chain(keys: Sequence[Key]) -> str:
    return clip(" -> ".join(keys), WIDTH - 40) or "none"


def _tree(goal: GoalSpec) -> Iterator[str]:
    """Yield the actions, those of a compound below it and further in."""

    def below(parent: Key | None, indent: str) -> Iterable[str]:
        for action in goal.actions:
            if action.parent == parent:
                line = f"{action.key}{_kind(action)} -> {', '.join(action.effects) or 'nothing'}"
                yield indent + clip(line, WIDTH - len(indent))
                yield from below(action.key, f"{indent}  ")

    yield from below(None, "  ")


def _kind(action: ActionSpec) -> str:
    return " (compound)" if action.kind == "compound" else ""
