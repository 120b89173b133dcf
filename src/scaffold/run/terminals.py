"""Which questions are asked at a terminal right now: the run waits for their answers."""

from scaffold.core.ids import RunId
from scaffold.host.identity import is_alive
from scaffold.store.database import Store


def asked_items(store: Store, run_id: RunId) -> frozenset[str]:
    """Return the run's inbox items that a living process asks at a terminal."""
    return frozenset(item for item, processes in store.inbox.terminals(run_id).items() if any(map(is_alive, processes)))
