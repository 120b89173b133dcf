-- What commands of the user do to branches outside of the merge queue: taking work to the base branch, opening a pull
-- request, reverting an action. Written before the branch is moved or pushed, so that a crash in between can be resolved.
CREATE TABLE branch_move (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    branch TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    old_sha TEXT,
    new_sha TEXT NOT NULL,
    action_id TEXT REFERENCES action (id),
    commits TEXT NOT NULL,
    url TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    resolved_at TEXT,
    UNIQUE (run_id, position)
);

CREATE INDEX branch_move_open ON branch_move (run_id, position) WHERE status = 'open';
