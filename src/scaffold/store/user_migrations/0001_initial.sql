-- The database of a user, shared by all repositories: conversations, budgets of sessions, the throttle of each endpoint.
-- Times are ISO-8601 text in UTC; those of endpoints are seconds since 1970, because they are computed with.

-- One row per migration. `readable_from` is the oldest schema whose programs may still read this one.
CREATE TABLE schema_migration (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL,
    readable_from INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE conversation (
    id TEXT PRIMARY KEY,
    parent TEXT REFERENCES conversation (id) ON DELETE CASCADE,
    cwd TEXT NOT NULL,
    model TEXT NOT NULL,
    title TEXT NOT NULL,
    owner TEXT,
    mode TEXT NOT NULL DEFAULT 'default',
    todos TEXT NOT NULL DEFAULT '{}',
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

-- A subagent is a conversation with a parent; this row says how it was started and how it ended.
CREATE TABLE subagent (
    id TEXT PRIMARY KEY REFERENCES conversation (id) ON DELETE CASCADE,
    parent TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    task TEXT NOT NULL,
    context TEXT NOT NULL,
    spec TEXT NOT NULL,
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

CREATE TABLE budget_account (
    id TEXT PRIMARY KEY,
    spent_usd DOUBLE PRECISION NOT NULL
);

CREATE TABLE reservation (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    payer TEXT NOT NULL,
    position INTEGER NOT NULL,
    amount_usd DOUBLE PRECISION,
    granted INTEGER NOT NULL CHECK (granted IN (0, 1)),
    owner TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (account, position)
);

-- What rate limits have taught about an endpoint: until when it gets no request, and how many at once after that.
CREATE TABLE endpoint_throttle (
    name TEXT PRIMARY KEY,
    cooldown_until_s DOUBLE PRECISION NOT NULL,
    cooldowns INTEGER NOT NULL,
    max_in_flight INTEGER NOT NULL,
    restore_at INTEGER NOT NULL,
    successes INTEGER NOT NULL
);

-- One row per request under way.
CREATE TABLE ticket (
    id TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    owner TEXT NOT NULL
);

CREATE INDEX ticket_by_endpoint ON ticket (endpoint, owner);

CREATE TABLE subscription (
    scope TEXT NOT NULL,
    channel TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (scope, channel, subscriber)
);

-- Messages between sessions and their subagents.
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

CREATE INDEX envelope_unread ON envelope (scope, recipient, seq) WHERE consumed_at IS NULL;

-- Which configuration files of a folder the user agreed to: one row per agreed set of files and digests (JSON).
CREATE TABLE folder_trust (
    identity TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    files TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (identity, fingerprint)
);
