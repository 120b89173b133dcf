"""Repeat failed tests unchanged; a test that then passes is flaky."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import structs

from scaffold.core.proof.gates import GateRun

MAX_REPEATED = 200
"""If more tests failed than this, flakiness is not the explanation and nothing is repeated."""

Rerun = Callable[[Sequence[str]], Awaitable[GateRun]]
"""Runs the named tests again; with no names, the same tests as the first time."""


async def retry_new_failures(run: GateRun, doubtful: Sequence[str], rerun: Rerun) -> GateRun:
    """Return the run with each `doubtful` test marked flaky if it passes when repeated.

    The tests are repeated alone first, which is cheap and usually confirms the failure. A test that passes alone may
    still be broken by the others, so it must also pass together with them.
    """
    if not doubtful or len(doubtful) > MAX_REPEATED:
        return run
    passing = _passed_names(await rerun(doubtful), doubtful)
    # A gate without test names runs whole each time, so the first repetition was the same already.
    if passing and run.gate.runner != "exit":
        passing = _passed_names(await rerun(()), passing)
    return _with_flaky(run, passing)


async def retry_known_flaky(run: GateRun, known: Collection[str], rerun: Rerun, *, rounds: int) -> GateRun:
    """Return the run with each failed test that is `known` to be flaky marked flaky if it passes within `rounds`."""
    for _ in range(rounds):
        still_failing = [name for name in sorted(known) if run.outcomes.get(name) in {"failed", "error"}]
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
