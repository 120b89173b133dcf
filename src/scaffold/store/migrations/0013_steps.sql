-- What the processes of a run are busy with, one row for each attempt and one ('') for the owner; only for people.
CREATE TABLE step (
    run_id TEXT NOT NULL REFERENCES run (id),
    attempt_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    stage TEXT NOT NULL,
    work TEXT NOT NULL,
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (run_id, attempt_id)
);

-- How long each command took when it last ended: gates, checks and set-up commands.
CREATE TABLE command_duration (
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    duration_s DOUBLE PRECISION NOT NULL,
    ended_at TEXT NOT NULL,
    PRIMARY KEY (folder, command)
);
