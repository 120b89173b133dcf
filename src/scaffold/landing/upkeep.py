"""Facts kept true while the branch moves: what they depend on changed, so somebody looks again.

A fact whose paths changed is stale until then. Its checks are run here; who judged it judges anew; where neither can
be had it stays as weak as it was. What its own checks speak against falls, and is done again.
"""

from collections.abc import Callable, Collection, Sequence

from scaffold.core.contract import Contract
from scaffold.core.gates import CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.landing.checkout import Checkout
from scaffold.landing.questions import Tested, in_question, put_in_question, refute, show_anew, unsettled
from scaffold.landing.staleness import Claim, checkable, older_than
from scaffold.verify.contract import results_of
from scaffold.worker.drafting import contract_in_force, patient_contract
from scaffold.worker.lease import owned
from scaffold.worker.site import Site


class Upkeep:
    """Looks after the facts of a run, for its owner; one thing at a time."""

    def __init__(
        self, site: Site, run: Run, checkout: Checkout, environment: Callable[[], CheckEnvironment | None]
    ) -> None:
        self._site = site
        self._run = run
        self._checkout = checkout
        self._environment = environment

    async def test(self, claims: Sequence[Claim], commit: Commit) -> tuple[Tested, ...]:
        """Run the checks of those claims that have any at a commit, each in a tree that nobody touched before."""
        return tuple([await self._tested(claim, commit) for claim in checkable(claims)])

    def mark(self, changed: Collection[str], tip: Commit) -> None:
        """Let everything go stale that depends on paths which others have changed, and was not shown at the tip."""
        with owned(self._site.store, self._run, durable=True):
            for claim in older_than(tip, in_question(self._site.store, self._run, changed)):
                put_in_question(self._site.store, claim)

    def contract(self, claim: Claim) -> Contract:
        """Return what the claim is held to, as patiently as when it was shown; an empty one for nothing."""
        store = self._site.store
        attempt = None if claim.attempt_id is None else store.attempts.get(claim.attempt_id)
        if attempt is None:
            return contract_in_force(store, claim.action.id) or Contract()
        return patient_contract(store, attempt, self._environment()) or Contract()

    def waiting(self) -> tuple[Claim, ...]:
        """Return what is stale and can be settled here."""
        return checkable(unsettled(self._site.store, self._run))

    async def settle(self, tip: Commit) -> None:
        """Look again at all that waits, at the tip of the branch: it holds there, or it is refuted. Safe to repeat."""
        for each in await self.test(self.waiting(), tip):
            self.decide(each)

    def decide(self, tested: Tested) -> None:
        """Write down what testing showed."""
        store = self._site.store
        with owned(store, self._run, durable=True):
            if tested.failures:
                refute(store, self._run, tested)
            else:
                show_anew(store, tested, self._site.clock.now())

    async def _tested(self, claim: Claim, commit: Commit) -> Tested:
        contract = self.contract(claim)
        marks = {"SCAFFOLD_ACTION": claim.action.key}
        if not contract.commands:
            results = await results_of(contract, self._checkout.bare(commit, commit, marks))
        else:
            async with self._checkout.tree(self._environment(), base=commit, commit=commit, marks=marks) as tree:
                results = await results_of(contract, tree)
        return Tested(claim=claim, commit=commit, results=results)
