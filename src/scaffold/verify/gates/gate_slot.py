"""A slot of this machine for a gate, with the wait for it shown."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from scaffold.core.activity import Activity
from scaffold.host.slots import Slots
from scaffold.verify.contract.check_runs import During

WAIT = Activity(label="waits for another gate on this machine to end", is_whole=False)


@asynccontextmanager
async def gate_slot(slots: Slots | None, during: During) -> AsyncIterator[None]:
    """Hold one of the slots while the block runs; None for no limit."""
    async with AsyncExitStack() as stack:
        if slots is not None:
            async with during(WAIT):
                await stack.enter_async_context(slots.taken())
        yield
