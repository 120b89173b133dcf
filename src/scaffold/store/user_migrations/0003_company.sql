-- Subagents: conversations with a parent, and how each of them ended. What agents tell each other: as in a repository.

ALTER TABLE conversation ADD COLUMN parent TEXT REFERENCES conversation (id) ON DELETE CASCADE;

CREATE TABLE subagent (
    id TEXT PRIMARY KEY REFERENCES conversation (id) ON DELETE CASCADE,
    parent TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    task TEXT NOT NULL,
    context TEXT NOT NULL,
    commission TEXT NOT NULL,
    timeout_s DOUBLE PRECISION NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT,
    result TEXT,
    error TEXT,
    process TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    UNIQUE (parent, number)
);

CREATE TABLE subscription (
    scope TEXT NOT NULL,
    channel TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (scope, channel, subscriber)
);

CREATE TABLE envelope (
    scope TEXT NOT NULL,
    seq INTEGER NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    channel TEXT,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    consumed_at TEXT,
    PRIMARY KEY (scope, seq)
);

CREATE INDEX envelope_waiting ON envelope (scope, recipient, seq) WHERE consumed_at IS NULL;
