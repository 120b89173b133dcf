"""Results of gates and checks by tree, command and environment, and the baseline of each run."""

from msgspec import structs

from scaffold.core.ids import Commit, RunId, TreeId
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.store.driver.columns import VERIFICATION, JsonColumn, format_time
from scaffold.store.driver.connection import ColumnValue
from scaffold.store.driver.gateway import TableGateway

SAVE_RUN = """
INSERT INTO gate_run (tree_sha, folder, command, environment, body, created_at)
VALUES (:tree_sha, :folder, :command, :environment, :body, :at)
ON CONFLICT (tree_sha, folder, command, environment) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at
"""
FIND_RUN = """
SELECT body FROM gate_run
WHERE tree_sha = :tree_sha AND folder = :folder AND command = :command AND environment = :environment
"""
DELETE_RUN = """
DELETE FROM gate_run
WHERE tree_sha = :tree_sha AND folder = :folder AND command = :command AND environment = :environment
"""
SAVE_BASELINE = """
INSERT INTO baseline (run_id, tree_sha, environment, gates, created_at)
VALUES (:run_id, :tree_sha, :environment, :gates, :at)
ON CONFLICT (run_id) DO UPDATE
SET tree_sha = excluded.tree_sha, environment = excluded.environment, gates = excluded.gates,
    created_at = excluded.created_at
"""
OF_RUN = "SELECT baseline.*, run.base_sha FROM baseline JOIN run ON run.id = run_id WHERE run_id = :run_id"
DELETE_BASELINE = "DELETE FROM baseline WHERE run_id = :run_id"
LANDED_SETTLING_TESTS = """
SELECT verification FROM attempt WHERE run_id = :run_id AND outcome = 'landed' AND settles_tests = 1
"""

RUN = JsonColumn[GateRun](GateRun)
GATES = JsonColumn[tuple[Gate, ...]](tuple[Gate, ...])
ENVIRONMENT = JsonColumn[CheckEnvironment](CheckEnvironment)


class Baselines(TableGateway):
    """Results of gates and checks, stored for reuse with the same tree, command and environment.

    A result belongs to the tree, whatever commit has it: its `commit` is the one it was asked for.
    """

    def keep(self, run: GateRun, tree: TreeId) -> None:
        """Store a result on the tree; replaces an older one."""
        key = _key(run.gate, tree, run.environment)
        self._connection.write(SAVE_RUN, **key, body=RUN.write(run), at=format_time(self._clock.now()))

    def find(self, gate: Gate, tree: TreeId, environment: str) -> GateRun | None:
        """Return the gate's result on the tree in that environment; None if it was never run."""
        row = self._connection.row(FIND_RUN, **_key(gate, tree, environment))
        found = None if row is None else RUN.read(row["body"])
        # Whether a gate only warns, and its timeout, may have changed since; its results have not.
        return structs.replace(found, gate=gate) if found and found.gate.runner == gate.runner else None

    def hold(self, run_id: RunId, baseline: Baseline, tree: TreeId) -> None:
        """Set the run's baseline, whose base has this tree, and store its gate results."""
        for run in baseline.runs:
            self.keep(run, tree)
        self._connection.write(
            SAVE_BASELINE,
            run_id=run_id,
            tree_sha=tree,
            environment=ENVIRONMENT.write(baseline.environment),
            gates=GATES.write(tuple(run.gate for run in baseline.runs)),
            at=format_time(self._clock.now()),
        )

    def of_run(self, run_id: RunId) -> Baseline | None:
        """Return the run's baseline; None if it was not captured yet, or was dropped."""
        row = self._connection.row(OF_RUN, run_id=run_id)
        if row is None:
            return None
        environment = ENVIRONMENT.read(row["environment"])
        found = [self.find(gate, row["tree_sha"], environment.fingerprint) for gate in GATES.read(row["gates"])]
        # A result may have been dropped with another run's baseline; then this one has to be captured again.
        if None in found:
            return None
        # Another run may have found it at another commit, which need not exist any more.
        base = Commit(row["base_sha"])
        return Baseline(environment=environment, runs=tuple(structs.replace(run, commit=base) for run in found if run))

    def settled_tests(self, run_id: RunId) -> frozenset[str]:
        """Return the names of the tests that landed work of the run removed, replaced or moved, as it was judged then.

        The baseline is from before the run, so they are missing in each later proof as well.
        """
        rows = self._connection.rows(LANDED_SETTLING_TESTS, run_id=run_id)
        landed = [VERIFICATION.read(row["verification"]) for row in rows]
        return frozenset(name for each in landed if each is not None for name in each.settled_tests)

    def drop(self, run_id: RunId, *, results: bool) -> None:
        """Delete the run's baseline, so that it is captured again when needed.

        Other runs on the same tree share the gate results, which are deleted only with `results`.
        """
        row = self._connection.row(OF_RUN, run_id=run_id)
        if row is not None and results:
            environment = ENVIRONMENT.read(row["environment"])
            for gate in GATES.read(row["gates"]):
                self._connection.write(DELETE_RUN, **_key(gate, row["tree_sha"], environment.fingerprint))
        self._connection.write(DELETE_BASELINE, run_id=run_id)


def _key(gate: Gate, tree: TreeId, environment: str) -> dict[str, ColumnValue]:
    return {"tree_sha": tree, "folder": gate.folder, "command": gate.command, "environment": environment}
