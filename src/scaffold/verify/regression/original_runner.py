"""Refuse the run of a test runner whose functions the work replaced: an assertion that never fails shows nothing.

Functions of the language that the work replaced may be part of it, and leave a doubt.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt
from scaffold.core.proof.gates import GateResult, GateRun
from scaffold.verify.gates.reports.signed_record import LYING_RUNNER

MAX_NAMED = 3
RUNNERS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "assert"})


def with_original_runner(before: GateRun | None, now: GateRun) -> GateRun:
    """Return the run, as an error if functions of the runner were replaced that nothing replaced before the work.

    A gate without a run before the work has no tests that could have been weakened.
    """
    # Some plugins and projects replace functions of their runner, and their tests mean what they meant before.
    new = [name for name in _newly_replaced(before, now) if _is_of_runner(name)]
    if not new or now.problem is not None:
        return now
    named, verb = join_limited(new, MAX_NAMED), "was" if len(new) == 1 else "were"
    why = f"{LYING_RUNNER}: {named} {verb} replaced and not restored while tests ran."
    return structs.replace(now, problem="error", detail=utf8_safe(f"{why}\n{now.detail}"))


def replaced_functions(before: GateRun | None, now: GateRun) -> tuple[str, ...]:
    """Return the functions of the language that the work replaced while its tests ran, sorted."""
    return tuple(name for name in _newly_replaced(before, now) if not _is_of_runner(name))


def doubts_about_functions(gates: Sequence[GateResult]) -> Iterator[Doubt]:
    """Yield the doubt about functions of the language that the work replaced; none if there are none."""
    names = sorted({name for gate in gates for name in gate.replaced})
    if names:
        text = f"code of the checkout replaced {join_limited(names, MAX_NAMED)} while tests ran"
        yield Doubt("functions_replaced", utf8_safe(text))


def _newly_replaced(before: GateRun | None, now: GateRun) -> list[str]:
    return [] if before is None else sorted({*now.replaced} - {*before.replaced})


def _is_of_runner(name: str) -> bool:
    """Return True also for what is no function, such as a record that cannot be read."""
    return "." not in name or name.partition(".")[0] in RUNNERS
