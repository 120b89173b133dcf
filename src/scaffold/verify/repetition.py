"""What failed is asked again, unchanged: a test that then passes has shown nothing but that it cannot be relied on."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import structs

from scaffold.core.gates import GateRun

MOST_REPEATED = 200
"""Where more tests failed than this, chance is no explanation."""

Rerun = Callable[[Sequence[str]], Awaitable[GateRun]]
"""Runs some tests again, by name; as many as the first time where none are named."""


async def settled(run: GateRun, doubtful: Sequence[str], rerun: Rerun) -> GateRun:
    """Return the run with those of the `doubtful` tests as flaky that pass when they are repeated.

    They are repeated alone first, which is cheap and tells most often that they do fail. One that passes alone may
    be broken by the others all the same, so it has to pass among them, too.
    """
    if not doubtful or len(doubtful) > MOST_REPEATED:
        return run
    passing = _passed(await rerun(doubtful), doubtful)
    if passing and run.gate.runner != "exit":
        passing = _passed(await rerun(()), passing)
    return _with_flaky(run, passing)


async def settled_at_last(run: GateRun, known: Collection[str], rerun: Rerun, *, rounds: int) -> GateRun:
    """Return the run with those tests as flaky that are `known` to be and pass in one of some rounds."""
    for _ in range(rounds):
        open_still = [name for name in sorted(known) if run.outcomes.get(name) in {"failed", "error"}]
        if not open_still or len(open_still) > MOST_REPEATED:
            break
        run = _with_flaky(run, _passed(await rerun(open_still), open_still))
    return run


def _passed(run: GateRun, names: Sequence[str]) -> list[str]:
    if run.trouble:
        return []
    return [name for name in names if run.outcomes.get(name) == "passed"]


def _with_flaky(run: GateRun, names: Sequence[str]) -> GateRun:
    return structs.replace(run, outcomes={**run.outcomes, **dict.fromkeys(names, "flaky")}) if names else run
