"""The known runs of gates: stored for the same tree, command, selection and environment, or from this proof."""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs
from msgspec.json import encode

from scaffold.core.ids import TreeId
from scaffold.core.proof.gates import CheckEnvironment, Gate, GateRun
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.proof_request import ProofRequest

NONE_SHARED: Mapping[str, GateRun] = {}


class GateRunMemory(Struct, frozen=True):
    """The runs that are known on one tree."""

    request: ProofRequest
    check_environment: CheckEnvironment
    tree: Tree
    tree_id: TreeId
    shared: Mapping[str, GateRun]
    """Whole runs of gates in this proof, by command."""

    @property
    def environment(self) -> str:
        """The fingerprint of the environment."""
        return self.check_environment.fingerprint

    def find(self, gate: Gate, only: Sequence[str], timeout_s: float) -> GateRun | None:
        """Return the known run of a gate limited to the test files `only` (empty for all); None if it has to run.

        A run that exceeded the gate's timeout does not count.
        """
        found = self.shared.get(gate.command) if not only and not gate.folder else None
        if found is None and self.request.find_gate_run:
            found = self.request.find_gate_run(gate, self.tree_id, self._storage_key(only))
        if found is None or found.problem or found.gate.runner != gate.runner or found.duration_s > timeout_s:
            return None
        # The stored one may be of another commit with the same tree.
        return structs.replace(found, gate=gate, commit=self.tree.commit, environment=self.environment)

    def keep(self, run: GateRun, only: Sequence[str]) -> None:
        """Store a run of a gate for `find`, unless it has a problem."""
        if self.request.store_gate_run and run.problem is None:
            self.request.store_gate_run(structs.replace(run, environment=self._storage_key(only)), self.tree_id)

    def _storage_key(self, only: Sequence[str]) -> str:
        # Runs are stored by selection, too: a part of the tests never answers for all of them.
        if not only:
            return self.environment
        return hashlib.sha256(encode(["selection", self.environment, sorted(only)])).hexdigest()
