"""The clean checkouts of a run's merge queue: several, so that candidates can be proven side by side."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.landing.proving.checkout import LANDING, Checkout
from scaffold.run.context import RunContext
from scaffold.run.resources.sandbox import stop_leftover_services
from scaffold.verify.contract.check_runs import During, Tree


class Checkouts:
    """One checkout for each name, used by one proof at a time and kept for the next one."""

    def __init__(self, context: RunContext, run: Run, names: Sequence[str]) -> None:
        """No proof may take a second one while it has one: all could wait for each other."""
        self._context = context
        self._run = run
        self._checkouts = tuple(Checkout(context, run, name) for name in names)
        self._free = [*reversed(self._checkouts)]
        self._places = asyncio.Semaphore(len(names))

    def tree_without_checkout(self, base: Commit, commit: Commit, marks: Mapping[str, str]) -> Tree:
        """Return a tree for checks that need only the commit's paths: nothing is checked out."""
        return self._checkouts[0].tree_without_checkout(base, commit, marks)

    @asynccontextmanager
    async def taken(self, during: During) -> AsyncIterator[Checkout]:
        """Take a checkout for the block, in which `during` shows its checks and gates."""
        async with self._places:
            checkout = self._free.pop()
            checkout.during = during
            try:
                yield checkout
            finally:
                self._free.append(checkout)
                # One proof after another uses the same one.
                self._free.sort(key=self._checkouts.index, reverse=True)

    async def close(self) -> None:
        """Stop leftover services; remove the worktrees and the temporary folders of their checks."""
        # Containers may still have files of a worktree mounted, so they stop before it goes.
        await stop_leftover_services(self._context, self._run)
        await self.remove()

    async def remove(self) -> None:
        """Remove the worktrees and the temporary folders of their checks; services of the run go on."""
        for checkout in self._checkouts:
            await checkout.remove()


def names_of_lanes(count: int) -> tuple[str, ...]:
    """Return the names of the checkouts in which candidates are proven side by side."""
    return tuple(f"{LANDING}-{number}" for number in range(1, count + 1))
