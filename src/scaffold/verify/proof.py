"""The proof of a candidate, in the order in which it can fail: what it may touch, its contract, the repository's gates.

The worker and the merge queue ask for the same proof of their trees; nobody's word is a part of it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.contract import BLOCKING, Contract, Verification
from scaffold.core.gates import Baseline, GateRun, Tagged
from scaffold.git import commit
from scaffold.host.slots import Slots
from scaffold.policy.areas import Areas
from scaffold.verify.baseline import Find
from scaffold.verify.contract import Tree, judged, unchanged
from scaffold.verify.guard import Mandate, guard
from scaffold.verify.regression import Terms, judge_gates

Scope = Literal["focused", "whole"]
"""Which tests of a gate run: those that have to do with the change, or all there are."""


class Standard(Struct, frozen=True, kw_only=True):
    """What a candidate is held to."""

    contract: Contract | None
    files: tuple[str, ...] = ()
    """The paths, folders and globs that the action declared it would touch."""
    areas: Areas = Areas()
    """In these nothing is touched that was not declared."""
    red: tuple[str, ...] | None = None
    """The names of the contract's checks that failed on the base; None where nobody looked."""
    baseline: Baseline | None = None
    """How the repository's gates did before the run's work; None for no gates."""
    scope: Scope = "focused"
    tagged: tuple[Tagged, ...] = ()
    """Tests that have to do with a change by their tags."""
    gates_off: tuple[str, ...] = ()
    """Kinds of gates that are not asked, be it that the work brings them."""
    gate_timeout_s: float = 600.0
    """What a gate may take that came with the work."""
    slots: Slots | None = None
    """What gates take turns by; None where nobody else could run any."""
    find: Find | None = None
    """Finds whole runs of gates that were kept, by commit."""
    keep: Callable[[GateRun], None] | None = None
    """Takes whole runs of gates, so that they are found again."""
    aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Keeps the work while its tree shows something else."""


async def prove(standard: Standard, tree: Tree) -> Verification:
    """Check the tree against the standard; what comes later is not asked where something before blocks."""
    changes = await commit.changes(tree.git, tree.base, tree.commit)
    if not changes:
        return unchanged(tree.commit)
    touched = await guard(_mandate(standard), tree, changes)
    if any(result.verdict in BLOCKING for result in touched):
        return Verification(commit=tree.commit, results=touched)
    paths = tuple(change.path for change in changes)
    verification = await judged(standard.contract, tree, paths, red=standard.red)
    verification = msgspec.structs.replace(verification, results=(*verification.results, *touched))
    if standard.baseline is None or not verification.passed:
        return verification
    gates = await judge_gates(_terms(standard, standard.baseline), tree, standard.slots)
    return msgspec.structs.replace(verification, gates=gates)


def _terms(standard: Standard, baseline: Baseline) -> Terms:
    return Terms(
        baseline=baseline,
        focused=standard.scope == "focused",
        files=standard.files,
        tagged=standard.tagged,
        off=standard.gates_off,
        find=standard.find,
        keep=standard.keep,
        timeout_s=standard.gate_timeout_s,
        aside=standard.aside,
    )


def _mandate(standard: Standard) -> Mandate:
    return Mandate(
        files=standard.files,
        areas=standard.areas,
        contract=standard.contract,
        gates=standard.baseline.runs if standard.baseline else (),
    )
