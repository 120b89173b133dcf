"""What a contract shows of the base, before any work: a check that is red there tells the work from nothing."""

import hashlib
from collections.abc import Mapping

from msgspec import Struct, structs
from msgspec.json import encode

from scaffold.core.contract import Check, CheckResult, Contract
from scaffold.core.gates import Gate, GateRun
from scaffold.core.ids import Commit
from scaffold.git import commit
from scaffold.store.database import Store
from scaffold.verify.contract import DEFAULT_TIMEOUT_S, PATIENCE, Tree, constraints, run_check, undo_changes

EXIT = "exit"
"""What the one outcome of a check is called that is judged as a whole."""


class Witness(Struct, frozen=True, kw_only=True):
    """What the checks of a contract showed before the work."""

    red: tuple[str, ...] = ()
    """The names of those that did not pass: whatever the reason, be it that what they need is not there yet."""
    durations: Mapping[str, float] = {}
    """Seconds, by the commands that were run."""


class Memory(Struct, frozen=True):
    """Where it is kept what checks have shown on one environment, for whoever asks about the same commit again."""

    store: Store
    environment: str
    """A hash of what checks stand on."""

    def recall(self, check: Check, base: Commit) -> GateRun | None:
        """Return what the check showed at a commit; None where nobody has run it."""
        return self.store.baselines.find(_gate(check), base, self._key(check))

    def keep(self, check: Check, base: Commit, result: CheckResult) -> GateRun:
        """Keep what a check showed, and return it."""
        run = GateRun(
            gate=_gate(check),
            commit=base,
            environment=self._key(check),
            exit_code=result.exit_code,
            outcomes={EXIT: "passed" if result.verdict == "pass" else "failed"},
            detail=result.detail,
            duration_s=result.duration_s,
            output_hash=result.output_hash,
        )
        with self.store.transaction():
            self.store.baselines.keep(run)
        return run

    def _key(self, check: Check) -> str:
        """Return the environment with what is expected: no gate of the same command is ever taken for the check."""
        return hashlib.sha256(encode(["contract", self.environment, check.expect])).hexdigest()


async def red_on_base(contract: Contract, tree: Tree, memory: Memory) -> Witness:
    """Run the checks at the base, which `tree` has checked out, as far as nobody knows what they show there.

    What they leave behind stays, the last of them also what it changed; the caller makes the tree new afterwards.
    """
    runs, unclean = [], False
    for check in contract.commands:
        known = memory.recall(check, tree.commit)
        if known is None:
            if unclean:
                await undo_changes(tree)
            known, unclean = memory.keep(check, tree.commit, await run_check(check, tree)), True
        runs.append(known)
    red = [run.gate.command for run in runs if _is_red(run)]
    return Witness(red=(*red, *await _red_constraints(contract, tree)), durations=_durations(runs))


def recalled(contract: Contract, base: Commit, memory: Memory) -> Witness:
    """Return what is known of the contract's commands at the base, without running anything."""
    runs = [run for check in contract.commands if (run := memory.recall(check, base)) is not None]
    return Witness(red=tuple(run.gate.command for run in runs if _is_red(run)), durations=_durations(runs))


def timed(contract: Contract, witness: Witness) -> Contract:
    """Return the contract with the patience that its checks are due: at least a minute, or three times the base's."""
    return structs.replace(contract, commands=tuple(_timed(check, witness.durations) for check in contract.commands))


def _timed(check: Check, durations: Mapping[str, float]) -> Check:
    patience_s = PATIENCE * durations.get(check.command, 0.0)
    if check.timeout_s is not None or patience_s <= DEFAULT_TIMEOUT_S:
        return check
    return structs.replace(check, timeout_s=round(patience_s, 1))


async def _red_constraints(contract: Contract, tree: Tree) -> tuple[str, ...]:
    asked = contract.must_exist or contract.must_not_exist
    paths = await commit.listed_paths(tree.git, tree.commit) if asked else ()
    return tuple(result.name for result in constraints(contract, paths, ()) if result.verdict != "pass")


def _gate(check: Check) -> Gate:
    return Gate(kind="test", command=check.command)


def _is_red(run: GateRun) -> bool:
    return run.outcomes.get(EXIT) != "passed"


def _durations(runs: list[GateRun]) -> dict[str, float]:
    return {run.gate.command: run.duration_s for run in runs}
