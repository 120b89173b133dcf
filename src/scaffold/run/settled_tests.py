"""The tests of the baseline about which landed work of the run has decided."""

from scaffold.core.ids import RunId
from scaffold.store.database import Store


def settled_tests(store: Store, run_id: RunId) -> frozenset[str]:
    """Return the names of the tests that landed work of the run removed, replaced or moved, as it was judged then.

    The baseline is from before the run, so they are missing in each later proof as well.
    """
    landed = (each.verification for each in store.attempts.of_run(run_id) if each.outcome == "landed")
    gates = (gate for verification in landed if verification is not None for gate in verification.gates)
    return frozenset(name for gate in gates for name in gate.base_tests)
