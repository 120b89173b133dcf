"""The linting step: the repository's own lint gates run first, and an agent is asked only if they fail."""

from msgspec import structs

from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import GateKind
from scaffold.git.checkouts import worktree
from scaffold.run.failures.refused_work import describe_failed_checks
from scaffold.verify.contract.check_runs import STEP_CHECK
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.gate_results import judge_gates
from scaffold.worker.workspace.workplace import Workplace

LINT_STEP = "linting"
LINT_KINDS: frozenset[GateKind] = frozenset({"lint", "typecheck"})


async def lint_before_agent(place: Workplace) -> Verification | None:
    """Run the lint gates on the work so far; None at another step, or without lint gates.

    Failures that the base has, too, do not count.
    """
    baseline, settings = place.baseline, place.task.run.settings
    if place.task.action.role != LINT_STEP or place.task.attempt.kind != "step" or baseline is None:
        return None
    runs = tuple(run for run in baseline.runs if run.gate.kind in LINT_KINDS)
    if not runs or not settings.gates.enabled:
        return None
    start = place.workspace.start
    linting = structs.replace(baseline, runs=runs)
    request = ProofRequest(
        baseline=linting,
        focused=False,
        files=("**",),
        gates_off=settings.gates.off,
        gate_timeout_s=settings.gates.timeout_s,
        slots=place.run_context.slots(settings.gates.slots),
        find_gate_run=place.run_context.store.baselines.find,
    )
    results = await judge_gates(request, linting, place.tree(start))
    await worktree.restore(place.workspace.git, start)
    judged = [each for each in results if each.gate.kind in LINT_KINDS]
    ended = CheckResult(name=STEP_CHECK, verdict="pass", detail=", ".join(f"{each.gate.name}" for each in judged))
    found = Verification(commit=start, results=(ended,), gates=tuple(judged))
    # A gate that ran nothing proves nothing.
    return found if any(each.counts_for_work or each.blocks for each in judged) else None


def lint_failure(found: Verification | None) -> str:
    """Return the gates' failures for the agent; empty if they passed or did not run."""
    return describe_failed_checks(found) if found is not None and not found.passed else ""


def lint_answer(found: Verification) -> str:
    """Return the answer recorded instead of an agent's when the gates pass."""
    gates = ", ".join(f"`{each.gate.command}`" for each in found.gates)
    return f"No agent was needed.\n\nSUMMARY\nThe lint checks pass on the work so far: {gates}."
