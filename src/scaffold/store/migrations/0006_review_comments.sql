-- What a human says about lines of a change. It is a draft until it is sent to the agent, and is never deleted after that.
CREATE TABLE review_comment (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    number INTEGER NOT NULL,
    base_sha TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    path TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    before INTEGER NOT NULL CHECK (before IN (0, 1)),
    quoted TEXT NOT NULL,
    text TEXT NOT NULL,
    author TEXT NOT NULL,
    sent_as TEXT NOT NULL,
    created_at TEXT NOT NULL,
    sent_at TEXT,
    UNIQUE (action_id, number)
);
