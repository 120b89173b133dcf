-- What waits for a human, and what agents tell each other.
-- The column says which programs may still read this schema: those that know at least the one it names.

ALTER TABLE schema_version ADD COLUMN readable_from INTEGER NOT NULL DEFAULT 1;

CREATE TABLE inbox (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    goal_id TEXT REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    attempt_id TEXT REFERENCES attempt (id),
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    detail TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    created_at TEXT NOT NULL,
    decided_at TEXT,
    expires_at TEXT,
    fingerprint TEXT NOT NULL,
    UNIQUE (run_id, position)
);

CREATE UNIQUE INDEX inbox_open ON inbox (run_id, fingerprint) WHERE state = 'open';

CREATE TABLE subscription (
    run_id TEXT NOT NULL REFERENCES run (id),
    channel TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (run_id, channel, subscriber)
);

CREATE TABLE message (
    run_id TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    channel TEXT,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    consumed_at TEXT,
    PRIMARY KEY (run_id, seq)
);

CREATE INDEX message_waiting ON message (run_id, recipient, seq) WHERE consumed_at IS NULL;
