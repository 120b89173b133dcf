"""Doubt work with which tests fail and then pass unchanged, if they always pass without it.

A test may be flaky by itself; then it also fails in one of a few runs on the base, and says nothing about the work.
"""

from collections.abc import Awaitable, Callable, Collection

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt, Verification
from scaffold.core.proof.gates import GateResult, GateRun
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.comparison import FAILING_OUTCOMES
from scaffold.verify.regression.flakiness.stability import BASE_RUNS, MAX_S, NAMING_RUNNERS

MAX_NAMED = 3


async def doubts_about_flaky_tests(
    request: ProofRequest, passed: Verification, tree: Tree, clean_tree: Callable[[Commit], Awaitable[Tree]]
) -> tuple[Doubt, ...]:
    """Return the doubt about tests that were flaky with the work alone; empty if there are none.

    Afterwards the work is checked out in `tree`, with nothing else but ignored files.
    """
    before = {run.gate.name: run for run in request.baseline_runs}
    suspects = [(each, names) for each in passed.gates if (names := _newly_flaky(each, before.get(each.gate.name)))]
    if not suspects:
        return ()
    found = list[str]()
    try:
        for result, names in suspects:
            found += sorted(await _stable_on_base(result, names, tree.base, clean_tree))
    finally:
        await worktree.restore(tree.git, tree.commit)
    if not found:
        return ()
    text = f"failed and then passed unchanged, as never without the work: {join_limited(found, MAX_NAMED)}"
    return (Doubt("flaky_tests", utf8_safe(text)),)


def _newly_flaky(result: GateResult, before: GateRun | None) -> frozenset[str]:
    """Return the flaky tests that passed at once before the work."""
    known = before.outcomes if before else {}
    flaky = (name for name, verdict in result.tests.items() if verdict == "flaky")
    return frozenset(name for name in flaky if known.get(name) == "passed")


async def _stable_on_base(
    result: GateResult, names: Collection[str], base: Commit, clean_tree: Callable[[Commit], Awaitable[Tree]]
) -> frozenset[str]:
    """Return the tests that pass in all of a few runs on the base; fewer if only the whole gate can run."""
    gate, left = result.gate, frozenset(names)
    selects = gate.runner in NAMING_RUNNERS
    runs = BASE_RUNS if selects else min(BASE_RUNS, max(1, int(MAX_S / max(result.duration_s, 1.0))))
    for _ in range(runs):
        only = sorted(left) if selects else ()
        run = await run_gate(gate, await clean_tree(base), only=only, environment="", timeout_s=MAX_S)
        left -= {name for name, outcome in run.outcomes.items() if outcome in FAILING_OUTCOMES}
        if run.problem or not left:
            break
    return left
