"""The tests of the baseline about which landed work of the run has decided."""

from scaffold.core.contract import Verification
from scaffold.core.ids import RunId
from scaffold.store.database import Store


def settled_tests(store: Store, run_id: RunId) -> frozenset[str]:
    """Return the names of the tests that landed work of the run removed, replaced or moved, as it was judged then.

    The baseline is from before the run, so they are missing in each later proof as well.
    """
    landed = (each.verification for each in store.attempts.of_run(run_id) if each.outcome == "landed")
    return frozenset(name for each in landed if each is not None for name in settled_by(each))


def settled_by(landed: Verification) -> frozenset[str]:
    """Return the names of the tests about which this work decided."""
    return frozenset(name for gate in landed.gates for name in gate.base_tests)
