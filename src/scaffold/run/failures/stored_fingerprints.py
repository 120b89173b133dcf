"""The fingerprints of stored failures: equal for two attempts that failed in the same way."""

from typing import Final

from msgspec import structs

from scaffold.core.model import Attempt
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.plan.failures.fingerprint import ShownFailure, failure_fingerprint
from scaffold.run.failures.refused_work import RefusalReason, refusals_of

AGENT_SAID: Final = "\nThe agent said: "
"""Separates why an attempt that changed nothing ended from the words of its agent, which differ each time."""


def verification_fingerprint(verification: Verification) -> str:
    """Return the fingerprint of why work is refused; empty for work that passed."""
    gates = refusals_of(structs.replace(verification, results=()))
    return failure_fingerprint(*map(_of_check, verification.failures), *map(_of_gate, gates))


def attempt_fingerprint(attempt: Attempt) -> str:
    """Return the fingerprint of how an ended attempt failed: of what refused its work, else of its error."""
    if attempt.verification is not None and not attempt.verification.passed:
        return verification_fingerprint(attempt.verification)
    error = (attempt.error or "").partition(AGENT_SAID)[0]
    return failure_fingerprint(ShownFailure(attempt.outcome or "", error)) if error else ""


def _of_check(result: CheckResult) -> ShownFailure:
    # The name of the check is not its output, so no program of an agent can pass for the failure of another check.
    return ShownFailure(f"{result.name} {result.verdict}", result.detail)


def _of_gate(refusal: RefusalReason) -> ShownFailure:
    return ShownFailure(refusal.what.partition("\n")[0], "\n".join((*refusal.items, refusal.output)))
