"""Rerun failed tests unchanged; one that then passes is flaky, and a doubt if it always passes without the work.

A test that is flaky on its own also fails in one of a few runs on the base, and proves nothing about the work.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt, Verification
from scaffold.core.proof.gates import GateResult, GateRun
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.comparison import FAILING_OUTCOMES
from scaffold.verify.regression.stability import BASE_RUNS, MAX_S, NAMING_RUNNERS

MAX_REPEATED = 200
"""If more tests failed than this, flakiness is not the explanation and nothing is repeated."""
Rerun = Callable[[Sequence[str]], Awaitable[GateRun]]
"""Runs the named tests again; with no names, the same tests as the first time."""
MAX_NAMED = 3


async def doubts_about_flaky_tests(
    request: ProofRequest, passed: Verification, tree: Tree, clean_tree: Callable[[Commit], Awaitable[Tree]]
) -> tuple[Doubt, ...]:
    """Return the doubt about tests that are flaky only with the work; empty without any.

    Afterwards the work is checked out in `tree`, with nothing else but ignored files.
    """
    before = {run.gate.name: run for run in request.baseline_runs}
    suspects = [(each, names) for each in passed.gates if (names := _newly_flaky(each, before.get(each.gate.name)))]
    if not suspects:
        return ()
    found = list[str]()
    try:
        for result, names in suspects:
            gate, left = result.gate, frozenset(names)
            selects = gate.runner in NAMING_RUNNERS
            runs = BASE_RUNS if selects else min(BASE_RUNS, max(1, int(MAX_S / max(result.duration_s, 1.0))))
            for _ in range(runs):
                only = sorted(left) if selects else ()
                run = await run_gate(gate, await clean_tree(tree.base), only=only, environment="", timeout_s=MAX_S)
                left -= {name for name, outcome in run.outcomes.items() if outcome in FAILING_OUTCOMES}
                if run.problem or not left:
                    break
            found += sorted(left)
    finally:
        await worktree.restore(tree.git, tree.commit)
    if not found:
        return ()
    text = f"failed and then passed unchanged, as never without the work: {join_limited(found, MAX_NAMED)}"
    return (Doubt("flaky_tests", utf8_safe(text)),)


def _newly_flaky(result: GateResult, before: GateRun | None) -> frozenset[str]:
    known = before.outcomes if before else {}
    flaky = (name for name, verdict in result.tests.items() if verdict == "flaky")
    return frozenset(name for name in flaky if known.get(name) == "passed")


async def retry_new_failures(run: GateRun, doubtful: Sequence[str], rerun: Rerun) -> GateRun:
    """Return the run with each `doubtful` test marked flaky if it passes when repeated.

    The tests are repeated alone first, which is cheap and usually confirms the failure. A test that passes alone may
    still be broken by the others, so it must also pass together with them.
    """
    if not doubtful or len(doubtful) > MAX_REPEATED:
        return run
    passing = _passed_names(await rerun(doubtful), doubtful)
    # A gate without test names runs whole each time, so the first repetition already covers this.
    if passing and run.gate.runner != "exit":
        passing = _passed_names(await rerun(()), passing)
    return _with_flaky(run, passing)


async def retry_known_flaky(run: GateRun, known: Collection[str], rerun: Rerun, *, rounds: int) -> GateRun:
    """Return the run with each failed test that is `known` to be flaky marked flaky if it passes within `rounds`."""
    for _ in range(rounds):
        still_failing = [name for name in sorted(known) if run.outcomes.get(name) in FAILING_OUTCOMES]
        if not still_failing or len(still_failing) > MAX_REPEATED:
            break
        run = _with_flaky(run, _passed_names(await rerun(still_failing), still_failing))
    return run


def _passed_names(run: GateRun, names: Sequence[str]) -> list[str]:
    if run.problem:
        return []
    return [name for name in names if run.outcomes.get(name) == "passed"]


def _with_flaky(run: GateRun, names: Sequence[str]) -> GateRun:
    if not names:
        return run
    refused = {name: reason for name, reason in run.refused.items() if name not in names}
    return structs.replace(run, outcomes={**run.outcomes, **dict.fromkeys(names, "flaky")}, refused=refused)
