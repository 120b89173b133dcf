"""Gate results by commit, command and environment, and the baseline of each run."""

from collections.abc import Sequence

from msgspec import structs

from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.ids import Commit, RunId
from scaffold.store.driver.columns import JsonColumn, format_time
from scaffold.store.driver.connection import ColumnValue
from scaffold.store.driver.gateway import TableGateway

SAVE_RUN = """
INSERT INTO gate_run (commit_sha, folder, command, environment, body, created_at)
VALUES (:commit_sha, :folder, :command, :environment, :body, :at)
ON CONFLICT (commit_sha, folder, command, environment) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at
"""
FIND_RUN = """
SELECT body FROM gate_run
WHERE commit_sha = :commit_sha AND folder = :folder AND command = :command AND environment = :environment
"""
DELETE_RUN = """
DELETE FROM gate_run
WHERE commit_sha = :commit_sha AND folder = :folder AND command = :command AND environment = :environment
"""
SAVE_BASELINE = """
INSERT INTO baseline (run_id, environment, gates, created_at) VALUES (:run_id, :environment, :gates, :at)
ON CONFLICT (run_id) DO UPDATE
SET environment = excluded.environment, gates = excluded.gates, created_at = excluded.created_at
"""
OF_RUN = "SELECT baseline.*, run.base_sha FROM baseline JOIN run ON run.id = run_id WHERE run_id = :run_id"
DELETE_BASELINE = "DELETE FROM baseline WHERE run_id = :run_id"

RUN = JsonColumn[GateRun](GateRun)
GATES = JsonColumn[tuple[Gate, ...]](tuple[Gate, ...])
ENVIRONMENT = JsonColumn[CheckEnvironment](CheckEnvironment)


class Baselines(TableGateway):
    """Results of whole gate runs, stored for reuse with the same commit, command and environment."""

    def keep(self, run: GateRun) -> None:
        """Store the result of a whole gate run; replaces an older one."""
        key = _key(run.gate, run.commit, run.environment)
        self._connection.write(SAVE_RUN, **key, body=RUN.write(run), at=format_time(self._clock.now()))

    def find(self, gate: Gate, commit: Commit, environment: str) -> GateRun | None:
        """Return the gate's result at the commit in that environment; None if it was never run."""
        row = self._connection.row(FIND_RUN, **_key(gate, commit, environment))
        found = None if row is None else RUN.read(row["body"])
        # Whether a gate only warns, and its timeout, may have changed since; its results have not.
        return structs.replace(found, gate=gate) if found and found.gate.runner == gate.runner else None

    def hold(self, run_id: RunId, baseline: Baseline) -> None:
        """Set the run's baseline and store its gate results."""
        for run in baseline.runs:
            self.keep(run)
        self._connection.write(
            SAVE_BASELINE,
            run_id=run_id,
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
        found = [self.find(gate, row["base_sha"], environment.fingerprint) for gate in GATES.read(row["gates"])]
        # A result may have been dropped with another run's baseline; then this one has to be captured again.
        return None if None in found else Baseline(environment=environment, runs=tuple(run for run in found if run))

    def drop(self, run_id: RunId, runs: Sequence[GateRun]) -> None:
        """Delete the run's baseline and these gate results, so that they are captured again when needed."""
        for run in runs:
            self._connection.write(DELETE_RUN, **_key(run.gate, run.commit, run.environment))
        self._connection.write(DELETE_BASELINE, run_id=run_id)


def _key(gate: Gate, commit: Commit, environment: str) -> dict[str, ColumnValue]:
    return {"commit_sha": commit, "folder": gate.folder, "command": gate.command, "environment": environment}
