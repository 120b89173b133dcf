"""The proof of a candidate, in the order in which it can fail: what it may touch, its contract, the repository's gates.

The worker and the merge queue ask for the same proof of their trees; nobody's word is a part of it.
"""

from typing import Literal

from msgspec import Struct

from scaffold.core.contract import Contract, Verification
from scaffold.core.gates import Baseline
from scaffold.policy.areas import Areas
from scaffold.verify.contract import Tree, verify

Scope = Literal["focused", "whole"]
"""Which tests of a gate run: those that have to do with the change, or all there are."""


class Standard(Struct, frozen=True, kw_only=True):
    """What a candidate is held to."""

    contract: Contract | None
    files: tuple[str, ...] = ()
    """The paths, folders and globs that the action declared it would touch."""
    areas: Areas = Areas()
    """In these nothing is touched that was not declared."""
    red: tuple[str, ...] = ()
    """The names of the contract's checks that failed on the base."""
    baseline: Baseline | None = None
    """How the repository's gates did before the run's work; None for no gates."""
    scope: Scope = "focused"


async def prove(standard: Standard, tree: Tree) -> Verification:
    """Check the tree against the standard; what comes later is not asked where something before blocks."""
    return await verify(standard.contract, tree)
