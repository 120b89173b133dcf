"""What a candidate has to show on the very tree that would land: its own proof, and everything it might break."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.gates import Baseline, CheckEnvironment, GateResult, GateRun
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.git import commit
from scaffold.landing.checkout import Checkout
from scaffold.landing.questions import Tested, in_question
from scaffold.landing.staleness import Claim
from scaffold.landing.upkeep import Upkeep
from scaffold.policy.areas import Areas
from scaffold.verify.gates.detection import detect_at, with_settings
from scaffold.verify.proof import Standard, prove
from scaffold.verify.regression import Terms, judge_gates
from scaffold.worker.context import summary
from scaffold.worker.drafting import patient_contract
from scaffold.worker.lease import owned
from scaffold.worker.site import Site


class Proven(Struct, frozen=True, kw_only=True):
    """What was found of a candidate."""

    verification: Verification
    changed: tuple[str, ...] = ()
    """The paths that it changes on the tip."""
    renewed: tuple[Tested, ...] = ()
    """What others have shown that it touches, and that holds with it as well."""
    broken: tuple[Tested, ...] = ()
    """What others have shown, and what does not hold with it."""

    @property
    def breaks(self) -> str:
        """Return what it breaks, and how that shows, in words for who made it."""
        return "\n\n".join(_breaks(each) for each in self.broken)


class Prover:
    """Proves candidates, and the whole, in the clean checkout of a run; one thing at a time."""

    def __init__(self, site: Site, run: Run) -> None:
        self._site = site
        self._run = run
        self._baseline: Baseline | None = None
        self._checkout = Checkout(site, run)
        self.upkeep = Upkeep(site, run, self._checkout, self._environment)

    async def candidate(self, action: Action, attempt: Attempt, merged: Commit, tip: Commit) -> Proven:
        """Prove what would land as `merged` on the tip, and test anew what it puts in question.

        What fails without it just the same is not its fault: that is refuted, and done again.
        """
        verification = await self._proven(action, attempt, merged, tip)
        if not verification.passed:
            return Proven(verification=verification)
        changed = await commit.changed_paths(self._site.git, tip, merged)
        claims = in_question(self._site.store, self._run, changed, besides=action.id)
        tested = await self.upkeep.test(claims, merged)
        broken = [each for each in tested if each.failures and await self._held_before(each.claim, tip)]
        renewed = tuple(_renewed(claims, tested, verification))
        return Proven(verification=verification, changed=changed, renewed=renewed, broken=tuple(broken))

    async def whole(self, tip: Commit) -> tuple[GateResult, ...]:
        """Hold all gates at the tip, whole, against the baseline; what is known of it already is not run again."""
        baseline = self._known_baseline()
        if baseline is None or not await self._gates_at(baseline, tip):
            return ()
        base = self._run.base_sha
        async with self._checkout.tree(baseline.environment, base=base, commit=tip) as tree:
            terms = Terms(
                baseline=baseline,
                focused=False,
                files=("**",),
                closing=True,
                off=self._run.settings.gates_off,
                find=self._site.store.baselines.find,
                keep=self._keep,
                timeout_s=self._run.settings.gate_timeout_s,
            )
            return await judge_gates(terms, tree, self._site.slots(self._run.settings.gate_slots))

    async def close(self) -> None:
        """Remove the checkout."""
        await self._checkout.close()

    async def _held_before(self, claim: Claim, tip: Commit) -> bool:
        """Tell whether a claim holds at the tip; one that does not falls."""
        (before,) = await self.upkeep.test([claim], tip)
        if before.failures:
            self.upkeep.decide(before)
        return not before.failures

    async def _proven(self, action: Action, attempt: Attempt, merged: Commit, tip: Commit) -> Verification:
        """Prove a candidate by itself; nothing is checked out for it where no command and no gate is to run."""
        baseline = self._known_baseline()
        applicable = baseline if baseline is not None and await self._gates_at(baseline, merged) else None
        standard, marks = self._standard(action, attempt, applicable), {"SCAFFOLD_ACTION": action.key}
        if applicable is None and (standard.contract is None or not standard.contract.commands):
            return await prove(standard, self._checkout.bare(tip, merged, marks))
        async with self._checkout.tree(self._environment(), base=tip, commit=merged, marks=marks) as tree:
            return await prove(standard, tree)

    async def _gates_at(self, baseline: Baseline, at: Commit) -> bool:
        """Tell whether there are gates to be asked at a commit: of the baseline, or come with the work."""
        settings = self._run.settings
        if baseline.runs or not settings.gates:
            return bool(baseline.runs)
        found = with_settings(await detect_at(self._site.git, at), settings.given_gates, settings.gates_off)
        return bool(found.gates)

    def _standard(self, action: Action, attempt: Attempt, baseline: Baseline | None) -> Standard:
        settings = self._run.settings
        return Standard(
            contract=patient_contract(self._site.store, attempt, self._environment()),
            files=action.files,
            areas=Areas.with_added(settings.areas),
            red=_red(attempt.verification),
            baseline=baseline,
            tagged=settings.tagged,
            gates_off=settings.gates_off,
            gate_timeout_s=settings.gate_timeout_s,
            slots=self._site.slots(self._run.settings.gate_slots),
            find=self._site.store.baselines.find,
            keep=self._keep,
        )

    def _known_baseline(self) -> Baseline | None:
        """Return what the run rests on: read once, as nobody changes it while the run is carried out."""
        if self._baseline is None:
            self._baseline = self._site.store.baselines.of_run(self._run.id)
        return self._baseline

    def _environment(self) -> CheckEnvironment | None:
        baseline = self._known_baseline()
        return baseline.environment if baseline else None

    def _keep(self, run: GateRun) -> None:
        with owned(self._site.store, self._run):
            self._site.store.baselines.keep(run)


def _red(verification: Verification | None) -> tuple[str, ...] | None:
    """Return which checks were red before the work; None where its worker did not look at all."""
    if verification is None:
        return None
    return verification.red or (() if verification.weak else None)


def _renewed(claims: Sequence[Claim], tested: Sequence[Tested], verification: Verification) -> Iterator[Tested]:
    """Yield what still holds, with the gates that ran; where those are all there is, they have to do."""
    applied = tuple(gate for gate in verification.gates if gate.verdict != "not_applicable")
    yield from (msgspec.structs.replace(each, gates=applied) for each in tested if not each.failures)
    for claim in claims:
        if claim.renewal == "nothing" and applied:
            yield Tested(claim=claim, commit=verification.commit, gates=applied)


def _breaks(tested: Tested) -> str:
    found = Verification(commit=tested.commit, results=tested.results)
    return f"breaks {tested.claim.named}\n{summary(found)}"
