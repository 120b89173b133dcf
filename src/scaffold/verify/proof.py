"""Prove a candidate: check its changed paths, then its contract, then the repository's gates.

The worker and the merge queue run the same proof. It uses only what was run, never what an agent claims.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.contract import BLOCKING_CHECK_VERDICTS, Contract, Verification
from scaffold.core.gates import Baseline, GateRun, TaggedTests
from scaffold.git import commits
from scaffold.host.slots import Slots
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.contract.checks import Tree, unchanged_result, verify_changes
from scaffold.verify.guard import ChangeScope, check_change_scope
from scaffold.verify.regression.baseline import GateRunLookup
from scaffold.verify.regression.gate_results import RegressionRequest, judge_gates

GateScope = Literal["focused", "whole"]
"""Which tests of a gate run: those affected by the change, or all."""


class ProofRequest(Struct, frozen=True, kw_only=True):
    """Everything that a candidate is checked against."""

    contract: Contract | None
    files: tuple[str, ...] = ()
    """The paths, folders and globs that the action declared."""
    areas: ProtectedAreas = ProtectedAreas()
    """Paths that may be changed only if the action declared them."""
    red: tuple[str, ...] | None = None
    """The names of the contract's checks that failed on the base; None if they were not run there."""
    baseline: Baseline | None = None
    """The gate results from before the run's work; None to run no gates."""
    scope: GateScope = "focused"
    tagged: tuple[TaggedTests, ...] = ()
    """Tests that are selected by their tags when certain paths change."""
    gates_off: tuple[str, ...] = ()
    """Kinds of gates that do not run, even if the work adds one."""
    gate_timeout_s: float = 600.0
    """The timeout of a gate that the work added."""
    slots: Slots | None = None
    """Limit how many gates run at once; None for no limit."""
    find: GateRunLookup | None = None
    """Finds a stored complete gate run by commit; None to run every gate."""
    keep: Callable[[GateRun], None] | None = None
    """Stores a complete gate run for `find`; None to store none."""
    set_work_aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Saves the work while its tree holds the old tests."""


async def prove_candidate(request: ProofRequest, tree: Tree) -> Verification:
    """Check the tree against `request`; a stage that blocks ends the proof."""
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    if not changes:
        return unchanged_result(tree.commit)
    scope_results = await check_change_scope(_change_scope(request), tree, changes)
    if any(result.verdict in BLOCKING_CHECK_VERDICTS for result in scope_results):
        return Verification(commit=tree.commit, results=scope_results)
    paths = tuple(change.path for change in changes)
    verification = await verify_changes(request.contract, tree, paths, red=request.red)
    verification = msgspec.structs.replace(verification, results=(*verification.results, *scope_results))
    if request.baseline is None or not verification.passed:
        return verification
    gates = await judge_gates(_regression_request(request, request.baseline), tree, request.slots)
    return msgspec.structs.replace(verification, gates=gates)


def _regression_request(request: ProofRequest, baseline: Baseline) -> RegressionRequest:
    return RegressionRequest(
        baseline=baseline,
        focused=request.scope == "focused",
        files=request.files,
        tagged=request.tagged,
        off=request.gates_off,
        find=request.find,
        keep=request.keep,
        timeout_s=request.gate_timeout_s,
        set_work_aside=request.set_work_aside,
    )


def _change_scope(request: ProofRequest) -> ChangeScope:
    return ChangeScope(
        files=request.files,
        areas=request.areas,
        contract=request.contract,
        gates=request.baseline.runs if request.baseline else (),
    )
