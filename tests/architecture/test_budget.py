"""No request to a model starts without a reservation: there is one place that sends them, and one ledger."""

import ast
from collections.abc import Iterator

from support.source_tree import SourceFile, last_name, source_files, walk

MODELS = "llm/"
"""What is in here answers requests, and asks others of it."""
SENDER = "agent/turn_loop.py"
EMBEDDER = "memory/embedders/remote.py"
"""Asks for vectors, which no agent does."""
WRAPPERS = {"agent/extensions/opened_plugins.py"}
"""Models that pass a request on to the one they wrap."""
LEDGER = {"store/spending/shared_budget.py", "store/spending/run_budget.py"}
DECORATORS = {"worker/activity_clock.py"}
"""Budgets that pass a reservation on to the one they wrap."""
AGENTS = {
    "worker/agent/native_executor.py": "open_budget",
    "worker/agent/side_agent.py": "open_budget",
    "orchestrator/planning/turn.py": "RunBudget",
    "orchestrator/owner/merge_agent.py": "RunBudget",
    "session/agent_session.py": "session_budget",
    "worker/second_review/reviewer_probe.py": "session_budget",
}
"""Where agents are made, and which budget pays each."""
MAKER = "worker/agent/role_agents.py"
"""Makes agents with the budget that it is given."""
OPENER = "worker/attempt_records.py"
"""Has the one `open_budget`: the budget of an attempt's agents."""


def modules(text: str) -> dict[str, SourceFile]:
    """Return the modules that contain the text, by path."""
    return {file.module: file for file in source_files() if text in file.text}


def calls(top: ast.AST) -> Iterator[str]:
    """Yield the last name of what is called."""
    yield from (last_name(node.func) for node in walk(top) if isinstance(node, ast.Call))


def test_one_function_sends_requests_and_reserves_first():
    """BX-11: whoever has an agent, a planner, a critic or a summary written, pays through it."""
    asking = {
        name: file
        for name, file in modules(".reply(").items()
        if "reply" in calls(file.tree) and not name.startswith(MODELS)
    }
    assert asking.keys() == {SENDER, EMBEDDER, *WRAPPERS}
    for sender in (SENDER, EMBEDDER):
        (sending,) = (each for each in asking[sender].functions() if "reply" in calls(each))
        done = list(calls(sending))
        assert {"reserve", "settle"} <= set(done)
        assert done.index("reserve") < done.index("reply")


def test_each_agent_is_paid_from_the_ledger():
    """BX-11, AL-21: there is no budget that reserves nothing."""
    makers = {name: file for name, file in modules("gent(").items() if {"Agent", "new_agent"} & set(calls(file.tree))}
    assert set(makers) == {*AGENTS, MAKER}
    for name, budget in AGENTS.items():
        assert budget in set(calls(makers[name].tree)), f"{name} makes agents without {budget}"
    assert set(modules("def open_budget")) == {OPENER}
    (opening,) = (each for each in modules("def open_budget")[OPENER].functions() if each.name == "open_budget")
    assert "RunBudget" in set(calls(opening))
    reserving = modules("def reserve").items()
    budgets = {name for name, file in reserving if any(each.name == "reserve" for each in file.functions())}
    assert budgets == LEDGER | DECORATORS | {"core/ports.py"}
