"""No request to a model starts without a reservation: there is one place that sends them, and one ledger."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "scaffold"
MODELS = SOURCE / "llm"
"""What is in here answers requests, and asks others of it."""
SENDER = "agent/turn_loop.py"
EMBEDDER = "memory/embedders/remote.py"
"""Asks for vectors, which no agent does."""
WRAPPERS = {"orchestrator/planning/loop_guard.py", "agent/plugins/opened.py"}
"""Models that pass a request on to the one they wrap."""
LEDGER = {"store/spending/budget.py", "store/spending/run_budget.py"}
DECORATORS = {"worker/activity.py"}
"""Budgets that pass a reservation on to the one they wrap."""
AGENTS = {
    "worker/native_executor.py": "RunBudget",
    "worker/side_agent.py": "RunBudget",
    "orchestrator/planning/turn.py": "RunBudget",
    "orchestrator/owner/merge_agent.py": "RunBudget",
    "session/agent_session.py": "session_budget",
    "orchestrator/trial/reviewer_probe.py": "session_budget",
}
"""Where agents are made, and which budget pays each."""


def modules(text: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that contain the text, by path."""
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        if text in source:
            yield str(path.relative_to(SOURCE)), ast.parse(source)


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the last name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    yield name


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_one_function_sends_requests_and_reserves_first():
    """BX-11: whoever has an agent, a planner, a critic or a summary written, pays through it."""
    senders = {
        name
        for name, tree in modules(".reply(")
        if "reply" in calls(tree) and not (SOURCE / name).is_relative_to(MODELS)
    }
    assert senders == {SENDER, EMBEDDER, *WRAPPERS}
    for sender in (SENDER, EMBEDDER):
        tree = dict(modules(".reply("))[sender]
        (sending,) = (each for each in functions(tree) if "reply" in calls(each))
        done = list(calls(sending))
        assert {"reserve", "settle"} <= set(done)
        assert done.index("reserve") < done.index("reply")


def test_each_agent_is_paid_from_the_ledger():
    """BX-11, AL-21: there is no budget that reserves nothing."""
    makers = {name: tree for name, tree in modules("Agent(") if "Agent" in calls(tree)}
    assert set(makers) == set(AGENTS)
    for name, budget in AGENTS.items():
        assert budget in set(calls(makers[name])), f"{name} makes agents without {budget}"
    budgets = {name for name, tree in modules("def reserve") if any(each.name == "reserve" for each in functions(tree))}
    assert budgets == LEDGER | DECORATORS | {"core/ports.py"}
