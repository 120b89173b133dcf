-- Contracts as they were sealed, and how the gates of a repository did before a run's work.
-- Older programs do not know the events of contracts, critics and baselines.

CREATE TABLE seal (
    action_id TEXT NOT NULL REFERENCES action (id),
    phase TEXT NOT NULL,
    body TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (action_id, phase)
);

CREATE TABLE gate_run (
    commit_sha TEXT NOT NULL,
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    environment TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (commit_sha, folder, command, environment)
);

CREATE TABLE baseline (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    environment TEXT NOT NULL,
    gates TEXT NOT NULL,
    created_at TEXT NOT NULL
);

-- What is stale is looked for each time a goal is looked at.
CREATE INDEX fact_stale ON fact (goal_id) WHERE state = 'stale';

UPDATE schema_version SET readable_from = 8;
