"""Refuse the run of a test runner whose functions the work replaced: an assertion that never fails shows nothing."""

from msgspec import structs

from scaffold.core.gates import GateRun
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.verify.gates.signed_record import LYING_RUNNER

MAX_NAMED = 3


def with_original_runner(before: GateRun | None, now: GateRun) -> GateRun:
    """Return the run, as an error if functions of the runner were replaced that nothing replaced before the work.

    A gate without a run before the work has no tests that could have been weakened.
    """
    # Some plugins and projects replace functions of their runner, and their tests mean what they meant before.
    new = () if before is None else sorted({*now.replaced} - {*before.replaced})
    if not new or now.problem is not None:
        return now
    named, verb = join_limited(new, MAX_NAMED), "was" if len(new) == 1 else "were"
    why = f"{LYING_RUNNER}: {named} {verb} replaced and not restored while tests ran."
    return structs.replace(now, problem="error", detail=utf8_safe(f"{why}\n{now.detail}"))
