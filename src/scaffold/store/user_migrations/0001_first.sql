-- What belongs to a user and to no repository: conversations, budgets of sessions, and the pace of each endpoint.
-- Times are ISO-8601 text in UTC, but for those of endpoints: seconds since 1970, to be computed with.

CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL,
    readable_from INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE conversation (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    model TEXT NOT NULL,
    title TEXT NOT NULL,
    owner TEXT,
    messages INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    requests INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX conversation_by_cwd ON conversation (cwd);

CREATE TABLE message (
    conversation_id TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);

CREATE TABLE compaction (
    conversation_id TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    after_seq INTEGER NOT NULL,
    kept_from INTEGER NOT NULL,
    summary TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (conversation_id, after_seq)
);

CREATE TABLE account (
    id TEXT PRIMARY KEY,
    spent_usd DOUBLE PRECISION NOT NULL
);

CREATE TABLE reservation (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    payer TEXT NOT NULL,
    position INTEGER NOT NULL,
    usd DOUBLE PRECISION,
    held INTEGER NOT NULL CHECK (held IN (0, 1)),
    owner TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (account, position)
);

CREATE TABLE endpoint (
    name TEXT PRIMARY KEY,
    parked_until_s DOUBLE PRECISION NOT NULL,
    strikes INTEGER NOT NULL,
    width INTEGER NOT NULL,
    ceiling INTEGER NOT NULL,
    successes INTEGER NOT NULL
);

CREATE TABLE ticket (
    id TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    owner TEXT NOT NULL
);

CREATE INDEX ticket_by_endpoint ON ticket (endpoint, owner);
