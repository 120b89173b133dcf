"""How the gates of a repository did: each run of one by commit, command and environment, and what a run rests on."""

from collections.abc import Sequence

from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.ids import Commit, RunId
from scaffold.store.columns import Calendar, Json, stamp
from scaffold.store.connection import Connection, Value

KEEP = """
INSERT INTO gate_run (commit_sha, folder, command, environment, body, created_at)
VALUES (:commit_sha, :folder, :command, :environment, :body, :at)
ON CONFLICT (commit_sha, folder, command, environment) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at
"""
FIND = """
SELECT body FROM gate_run
WHERE commit_sha = :commit_sha AND folder = :folder AND command = :command AND environment = :environment
"""
FORGET = """
DELETE FROM gate_run
WHERE commit_sha = :commit_sha AND folder = :folder AND command = :command AND environment = :environment
"""
HOLD = """
INSERT INTO baseline (run_id, environment, gates, created_at) VALUES (:run_id, :environment, :gates, :at)
ON CONFLICT (run_id) DO UPDATE
SET environment = excluded.environment, gates = excluded.gates, created_at = excluded.created_at
"""
OF_RUN = "SELECT baseline.*, run.base_sha FROM baseline JOIN run ON run.id = run_id WHERE run_id = :run_id"
DROP = "DELETE FROM baseline WHERE run_id = :run_id"

RUN = Json[GateRun](GateRun)
GATES = Json[tuple[Gate, ...]](tuple[Gate, ...])
ENVIRONMENT = Json[CheckEnvironment](CheckEnvironment)


class Baselines:
    """What gates showed, kept for whoever asks about the same commit, command and environment again."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def keep(self, run: GateRun) -> None:
        """Keep what a whole run of a gate showed; newer replaces older."""
        key = _key(run.gate, run.commit, run.environment)
        self._connection.write(KEEP, **key, body=RUN.write(run), at=stamp(self._clock.now()))

    def find(self, gate: Gate, commit: Commit, environment: str) -> GateRun | None:
        """Return what the gate showed at the commit on that environment; None where nobody has run it."""
        row = self._connection.row(FIND, **_key(gate, commit, environment))
        return None if row is None else RUN.read(row["body"])

    def hold(self, run_id: RunId, baseline: Baseline) -> None:
        """Let a run rest on these runs of its gates at its base, which are kept, too."""
        for run in baseline.runs:
            self.keep(run)
        self._connection.write(
            HOLD,
            run_id=run_id,
            environment=ENVIRONMENT.write(baseline.environment),
            gates=GATES.write(tuple(run.gate for run in baseline.runs)),
            at=stamp(self._clock.now()),
        )

    def of_run(self, run_id: RunId) -> Baseline | None:
        """Return what the run rests on; None before it is known, and once it was dropped."""
        row = self._connection.row(OF_RUN, run_id=run_id)
        if row is None:
            return None
        environment = ENVIRONMENT.read(row["environment"])
        found = [self.find(gate, row["base_sha"], environment.fingerprint) for gate in GATES.read(row["gates"])]
        return None if None in found else Baseline(environment=environment, runs=tuple(run for run in found if run))

    def drop(self, run_id: RunId, runs: Sequence[GateRun]) -> None:
        """Forget what a run rests on, and these runs of gates: who needs them makes them anew."""
        for run in runs:
            self._connection.write(FORGET, **_key(run.gate, run.commit, run.environment))
        self._connection.write(DROP, run_id=run_id)


def _key(gate: Gate, commit: Commit, environment: str) -> dict[str, Value]:
    return {"commit_sha": commit, "folder": gate.folder, "command": gate.command, "environment": environment}
