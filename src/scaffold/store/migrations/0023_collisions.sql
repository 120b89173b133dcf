-- What decides which ready actions may run at the same time.

-- The paths that an attempt's committed work changes, if the files of its action are unknown, and that commit.
ALTER TABLE attempt ADD COLUMN touched TEXT;
ALTER TABLE attempt ADD COLUMN touched_sha TEXT;

-- How many landings of a run have changed a path.
CREATE TABLE path_landing (
    run_id TEXT NOT NULL REFERENCES run (id),
    path TEXT NOT NULL,
    landings INTEGER NOT NULL,
    PRIMARY KEY (run_id, path)
);

-- The condition is that of the rule: more than three.
CREATE INDEX path_hotspot ON path_landing (run_id, path) WHERE landings > 3;

-- Where a run has its source, at its base.
CREATE TABLE source_layout (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    base_sha TEXT NOT NULL,
    layout TEXT NOT NULL
);

-- Ready actions that could not start because of others, and before how many of these others have started since.
CREATE TABLE held_back (
    action_id TEXT PRIMARY KEY REFERENCES action (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES run (id),
    since_seq INTEGER NOT NULL,
    overtaken INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX held_back_by_run ON held_back (run_id, since_seq);

-- The last work of an action, merged in memory with the work of an open attempt: the paths in which they conflict.
CREATE TABLE work_forecast (
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    head_sha TEXT NOT NULL,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    attempt_sha TEXT NOT NULL,
    paths TEXT NOT NULL,
    PRIMARY KEY (action_id, head_sha, attempt_id, attempt_sha)
);

CREATE INDEX work_forecast_by_run ON work_forecast (run_id);

CREATE INDEX action_running_compound ON action (run_id) WHERE status = 'running' AND kind = 'compound';
