"""What it costs to prove that a large plan reaches its goals."""

from collections.abc import Iterator

from row import Row, medians, row, seconds
from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.analysis.lint import lint

LIMIT_S = 1.0
WIDTH = 100


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: lint of a plan against one second."""
    count, rounds = (200, 1) if quick else (10_000, 5)
    plan = layered(count)
    (taken,) = medians(rounds, lambda: seconds(lambda: _prove(plan)))
    yield row(f"plan-lint-{count}", taken, LIMIT_S, unit="s", goal=1.0)


def layered(count: int) -> Plan:
    """Return a plan of layers, each action of which needs two of the layer above."""

    def made(number: int) -> Assertion:
        return Assertion(f"made-{number}")

    def needs(number: int) -> tuple[Assertion, ...]:
        above = number - WIDTH
        return () if above < 0 else (made(above), made(above - above % WIDTH + (above + 1) % WIDTH))

    actions = tuple(
        ActionSpec(key=ActionKey(f"key-{n}"), preconditions=needs(n), effects=(made(n),)) for n in range(count)
    )
    desired = tuple(made(number) for number in range(count - WIDTH, count))
    return Plan(goals=(GoalSpec(name="goal", goal_state=desired, actions=actions),))


def _prove(plan: Plan) -> None:
    report = lint(plan)
    if not report.valid:
        raise AssertionError(report.findings[:3])
