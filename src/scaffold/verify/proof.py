"""Prove a candidate: check its changed paths, then its contract, then the repository's gates.

The worker and the merge queue run the same proof. It uses only what was run, never what an agent claims.
"""

import hashlib

import msgspec
from msgspec import Struct
from msgspec.json import encode

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Doubt, Verification, blocking_results
from scaffold.core.proof.gates import Baseline, GateResult
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.contract.check_runs import Tree, unchanged_result, verify_changes
from scaffold.verify.guard import check_changed_paths
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.base_tests import doubts_about_tests
from scaffold.verify.regression.comparison import doubts_about_blind_gates, doubts_about_functions
from scaffold.verify.regression.gate_results import judge_gates
from scaffold.verify.regression.gate_run_memory import NONE_SHARED, GateRunMemory
from scaffold.verify.regression.shared_checks import SharedChecks
from scaffold.verify.regression.suppressions import doubts_about_suppressions
from scaffold.verify.weakened_gates import weakened_gates

NOT_JUDGED_BY = frozenset({"failed_on_base", "slots", "find_gate_run", "store_gate_run"})
"""The fields of a request that do not affect what passes."""


class GateProof(Struct, frozen=True):
    """The gate results and doubts of a tree."""

    gates: tuple[GateResult, ...]
    doubts: tuple[Doubt, ...] = ()


async def proof_key(request: ProofRequest, git: Git, base: Commit, commit: Commit) -> str:
    """Return a hash of everything that decides whether a change passes: its trees, contract, gates and environment."""
    trees = [await commits.tree_of(git, each) for each in (base, commit)]
    terms = {name: getattr(request, name) for name in request.__struct_fields__ if name not in NOT_JUDGED_BY}
    return hashlib.sha256(encode([trees, terms], order="deterministic")).hexdigest()


async def may_run(request: ProofRequest, tree: Tree) -> bool:
    """Return True if the work changes something and only allowed paths, so that its code may run."""
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    return bool(changes) and not blocking_results(await check_changed_paths(request, tree, changes))


async def prove_candidate(request: ProofRequest, tree: Tree, *, with_gates: bool = True) -> Verification:
    """Check the tree against `request`; a stage that blocks ends the proof.

    Without gates, those that the contract runs as its checks are stored, so that `prove_gates` finds them on this tree.
    """
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    if not changes:
        return unchanged_result(tree.commit)
    path_results = await check_changed_paths(request, tree, changes)
    # Nothing of the candidate has run so far: what may not be changed must not run, either.
    if blocking_results(path_results):
        return Verification(commit=tree.commit, results=path_results)
    paths = tuple(change.path for change in changes)
    checks = SharedChecks(request)
    verification = await verify_changes(
        request.contract, tree, paths, failed_on_base=request.failed_on_base, run=checks.run
    )
    verification = msgspec.structs.replace(verification, results=(*verification.results, *path_results))
    if not with_gates:
        if request.baseline is not None and checks.gate_runs:
            tree_id = await commits.tree_of(tree.git, tree.commit)
            memory = GateRunMemory(request, request.baseline.environment, tree, tree_id, NONE_SHARED)
            for run in checks.gate_runs.values():
                memory.keep(run, ())
    # Gates take longest, and work that fails its contract does not land, whatever their results.
    elif request.baseline is not None and verification.passed:
        shown = await prove_gates(request, request.baseline, tree, checks=checks)
        doubts = (*verification.doubts, *shown.doubts)
        verification = msgspec.structs.replace(verification, gates=shown.gates, doubts=doubts)
    made = request.baseline.environment.made_by_work if request.baseline else ""
    if made:
        doubt = Doubt("environment_made", f"the work took part in making the environment of its checks: {made}")
        verification = msgspec.structs.replace(verification, doubts=(*verification.doubts, doubt))
    return _with_lacks(verification, request.lacks)


async def prove_gates(
    request: ProofRequest, baseline: Baseline, tree: Tree, *, checks: SharedChecks | None = None
) -> GateProof:
    """Run the repository's gates on a tree, as `judge_gates` does."""
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    gates = await judge_gates(request, baseline, tree, checks=checks)
    silenced = await doubts_about_suppressions(tree, changes, gates)
    weakened = (await weakened_gates(request, tree, changes)).doubts
    blind = doubts_about_blind_gates(gates)
    found = (*doubts_about_tests(gates), *doubts_about_functions(gates), *silenced, *weakened, *blind)
    return GateProof(gates, found)


def _with_lacks(verification: Verification, lacks: str) -> Verification:
    if not lacks:
        return verification
    results = tuple(
        msgspec.structs.replace(result, detail=f"{lacks}\n{result.detail}")
        if result in blocking_results(verification.results) and result.exit_code is not None
        else result
        for result in verification.results
    )
    gates = tuple(
        msgspec.structs.replace(gate, detail=f"{lacks}\n{gate.detail}") if gate.blocks else gate
        for gate in verification.gates
    )
    return msgspec.structs.replace(verification, results=results, gates=gates)
