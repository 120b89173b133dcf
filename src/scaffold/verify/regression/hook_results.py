"""Judge a change by the repository's commit hooks: on the files of the change, and on the same files before it.

A hook that fails on both is not the fault of the change. So hooks that fail on the base block new failures only.
"""

import hashlib

from msgspec import Struct, structs
from msgspec.json import encode

from scaffold.core.ids import TreeId
from scaffold.core.proof.gates import Gate, GateResult, GateRun
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.repository_hooks import HookInput, HookRun, run_hooks
from scaffold.verify.regression.baseline_capture import hooks_apply
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, compare_gate_runs, with_renamed_files
from scaffold.verify.regression.gate_run_memory import GateRunMemory


def hook_key(environment: str, before: GateRun, base: TreeId) -> str:
    """Return the key under which a run on a change is stored, which includes the base of the change."""
    return hashlib.sha256(encode(["change", environment, base, before.commit])).hexdigest()


class HookJudge(Struct, frozen=True):
    """Judges one change by hooks."""

    memory: GateRunMemory
    before: GateRun
    """Their run at the base of the run, on all files."""
    timeout_s: float

    @property
    def _checked_tree(self) -> Tree:
        return self.memory.tree

    async def judged(self) -> GateResult:
        """Return the result; not applicable if the hooks look at no file of the change."""
        gate, base = self.before.gate, await commits.tree_of(self._checked_tree.git, self._checked_tree.base)
        key = hook_key(self.memory.environment, self.before, base)
        run = await self._on_change(gate, key)
        if run.problem == "vacuous":
            return GateResult(
                gate=gate, verdict="not_applicable", detail="No commit hook looks at a file of the change."
            )
        if FAILING_OUTCOMES.isdisjoint(run.outcomes.values()):
            return compare_gate_runs(None, run)
        # Hooks look at the files of a change, so they may have nothing to do.
        return compare_gate_runs(await self._run_before(gate, base), run, expected=lambda _: False)

    async def _on_change(self, gate: Gate, key: str) -> GateRun:
        request = self.memory.request
        found = request.find_gate_run(gate, self.memory.tree_id, key) if request.find_gate_run else None
        if found is not None and not found.problem:
            return structs.replace(found, commit=self._checked_tree.commit)
        given = HookInput(staged=self.memory.tree_id, head=self._checked_tree.base, definitions=self.before.commit)
        run = (await self._run_hooks(gate, given)).run
        if request.store_gate_run and run.problem is None:
            request.store_gate_run(structs.replace(run, environment=key), self.memory.tree_id)
        return run

    async def _run_before(self, gate: Gate, base: TreeId) -> GateRun | None:
        tree = self._checked_tree
        changes = await commits.path_changes(tree.git, tree.base, tree.commit)
        there = tuple(change.path for change in changes if change.kind != "A")
        given = HookInput(staged=base, head=tree.base, without=there, definitions=self.before.commit)
        run = (await self._run_hooks(gate, given)).run
        if not hooks_apply(run):
            return None
        return with_renamed_files(run, await commits.renames(tree.git, tree.base, tree.commit))

    async def _run_hooks(self, gate: Gate, given: HookInput) -> HookRun:
        return await run_hooks(
            gate, self._checked_tree, given, environment=self.memory.environment, timeout_s=self.timeout_s
        )
