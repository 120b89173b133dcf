"""Which questions are asked at a terminal right now: the run waits for their answers."""

from scaffold.core.ids import RunId
from scaffold.core.model import ProcessIdentity
from scaffold.host.process_identity import is_alive, is_stopped
from scaffold.store.database import Store


def asked_items(store: Store, run_id: RunId) -> frozenset[str]:
    """Return the run's inbox items that a process asks at a terminal; one that is suspended asks nothing."""
    return frozenset(item for item, asking in store.inbox.terminals(run_id).items() if any(map(_asks, asking)))


def _asks(process: ProcessIdentity) -> bool:
    return is_alive(process) and not is_stopped(process)
