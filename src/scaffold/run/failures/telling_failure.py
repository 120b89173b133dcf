"""Choose the failed attempt that explains best why an action failed. Pure."""

from collections.abc import Sequence
from typing import Literal, assert_never

from scaffold.core.model import Attempt
from scaffold.core.proof.contract import Verification
from scaffold.core.states import WORKER_PHASES

FailureKind = Literal["named", "refused", "unimproved", "unchanged", "timeout", "error"]
"""How an attempt failed: refused with the names of tests, files or facts | refused by a check | the agent changed
nothing after its work was refused | it changed nothing at all | out of time | an error of its agent or provider."""
MOST_TELLING_FIRST: Sequence[FailureKind] = ("named", "refused", "unimproved", "unchanged", "timeout", "error")


def most_telling(attempts: Sequence[Attempt]) -> Attempt:
    """Return the attempt whose failure says most about the work; the latest of those that say the same.

    There must be at least one.
    """
    return min(reversed(attempts), key=lambda each: MOST_TELLING_FIRST.index(failure_kind(each)))


def failure_kind(attempt: Attempt) -> FailureKind:
    """Return how an ended attempt failed; `error` for outcomes that are no verdict on the work."""
    match attempt.outcome:
        case "contract_failed" | "gate_failed":
            return _refusal_kind(attempt)
        case "rejected":
            return "named"
        case "timeout":
            return "timeout"
        case (
            "executor_failed"
            | "conflict"
            | "budget"
            | "cancelled"
            | "lost"
            | "unavailable"
            | "no_access"
            | "waiting"
            | "landed"
            | "recorded"
            | "restarted"
            | None
        ):
            return "error"
        case _:
            assert_never(attempt.outcome)


def _refusal_kind(attempt: Attempt) -> FailureKind:
    # A candidate had passed before; what refused it there names what it broke.
    if attempt.phase not in WORKER_PHASES:
        return "named"
    if attempt.verification is None or attempt.verification.passed:
        return "unchanged"
    # Work is checked in a later phase: an attempt that ends while its agent works did not change what was refused.
    if attempt.phase == "executing":
        return "unimproved"
    return "named" if _names_something(attempt.verification) else "refused"


def _names_something(verification: Verification) -> bool:
    """Return whether a failure names a test, a finding or a path; a failed command tells only its output."""
    return any(gate.tests for gate in verification.broken_gates) or any(
        result.exit_code is None and result.verdict == "fail" for result in verification.failures
    )
