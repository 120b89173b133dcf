-- The database of a user, shared by all repositories: conversations, budgets of sessions, the throttle of each endpoint,
-- logins, approvals, and what is remembered for all folders.
-- Times are ISO-8601 text in UTC; those of endpoints are seconds since 1970, because they are computed with.

-- One row per migration. `readable_from` is the oldest schema whose programs may still read this one.
CREATE TABLE schema_history (
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
    updated_at TEXT NOT NULL,
    -- How much the model thinks, as the user chose it for the conversation; empty: as the settings say.
    effort TEXT NOT NULL DEFAULT ''
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

-- What a conversation knows of files, so that a resumed one need not read them again. `version` is the digest of a
-- file's content, or for a long file its device, inode, size and time of change.
CREATE TABLE seen_file (
    conversation_id TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    version TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (conversation_id, path)
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

-- Totals, so that no request adds up all bookings before it.
CREATE TABLE budget_account (
    id TEXT PRIMARY KEY,
    spent_usd DOUBLE PRECISION NOT NULL,
    spent_tokens BIGINT NOT NULL DEFAULT 0,
    estimated_tokens BIGINT NOT NULL DEFAULT 0,
    error_tokens BIGINT NOT NULL DEFAULT 0
);

-- What is set aside for requests under way, and the queue of those that wait for it: all processes share one limit.
CREATE TABLE reservation (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    payer TEXT NOT NULL,
    position INTEGER NOT NULL,
    amount_usd DOUBLE PRECISION,
    granted INTEGER NOT NULL CHECK (granted IN (0, 1)),
    owner TEXT NOT NULL,
    at TEXT NOT NULL,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    cached_input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 1,
    role TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    UNIQUE (account, position)
);

-- What rate limits and failures have taught about an endpoint: until when it gets no request, and how many at once after
-- that. It may be unavailable, too, so failures in a row are counted before there is any limit.
CREATE TABLE endpoint_throttle (
    name TEXT PRIMARY KEY,
    cooldown_from_s DOUBLE PRECISION NOT NULL,
    cooldown_until_s DOUBLE PRECISION NOT NULL,
    cooldowns INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    max_in_flight INTEGER,
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

-- The definitions of tools of MCP servers that the user has approved, by a hash of each.
CREATE TABLE mcp_approval (
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    program TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (scope, server, program, tool)
) STRICT;

-- The user's login at a provider whose models a subscription pays: one row each. `tokens` is encrypted; its key is
-- elsewhere. `renewing_since` is set while a refresh token is being used, which works once. `ended` says why the
-- provider no longer accepts it; empty while it does.
CREATE TABLE login (
    provider TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    tokens BLOB NOT NULL,
    key_place TEXT NOT NULL,
    key_name TEXT NOT NULL,
    renewals INTEGER NOT NULL,
    renewing_since TEXT,
    ended TEXT NOT NULL,
    created_at TEXT NOT NULL,
    renewed_at TEXT NOT NULL
);

-- Second reviewers over all runs and repositories: their verdicts with what became of them, and their answers about
-- changes with and without a planted fault.
CREATE TABLE reviewer_outcome (
    attempt_id TEXT NOT NULL,
    change TEXT NOT NULL,
    model TEXT NOT NULL,
    repository TEXT NOT NULL,
    run_id TEXT NOT NULL,
    action TEXT NOT NULL,
    verdict TEXT NOT NULL,
    human TEXT NOT NULL,
    fate TEXT NOT NULL,
    given_at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, change, model)
);

CREATE TABLE reviewer_probe (
    id TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    kind TEXT NOT NULL,
    verdict TEXT NOT NULL,
    located INTEGER NOT NULL CHECK (located IN (0, 1)),
    answered_at TEXT NOT NULL
);

CREATE INDEX reviewer_probe_of_model ON reviewer_probe (model, answered_at);

-- From here on: what agents remember, what earlier work showed (learnings), and documents. Text, words and vectors of
-- each chunk change together. The database of a repository has the same tables.

-- One row: the number of the last change. What is derived from these tables knows by it what it has not seen.
CREATE TABLE knowledge_change (number INTEGER NOT NULL);
INSERT INTO knowledge_change VALUES (0);

-- A random mark for each of the last changes: who knows the number and the mark of a change knows whether this database
-- was in that state before. After a backup was restored, numbers come back, marks do not.
CREATE TABLE knowledge_mark (number INTEGER PRIMARY KEY, mark TEXT NOT NULL);

INSERT INTO knowledge_mark SELECT number, lower(hex(randomblob(8))) FROM knowledge_change;

CREATE TABLE collection (
    name TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    error TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX document_by_collection ON document (collection);

CREATE TABLE chunk (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    text TEXT NOT NULL,
    title TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    document_id TEXT REFERENCES document (id) ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    end_char INTEGER NOT NULL,
    page INTEGER NOT NULL,
    source TEXT NOT NULL,
    meta TEXT NOT NULL,
    state TEXT NOT NULL,
    valid_from TEXT NOT NULL,
    valid_until TEXT,
    superseded_by TEXT,
    created_at TEXT NOT NULL
);

-- A text that was superseded may be stored once more.
CREATE UNIQUE INDEX chunk_by_text ON chunk (collection, sha256, COALESCE(document_id, ''), start_char)
    WHERE valid_until IS NULL;
CREATE INDEX chunk_by_document ON chunk (document_id, start_char) WHERE document_id IS NOT NULL;
CREATE INDEX chunk_by_source ON chunk (source);
CREATE INDEX chunk_by_time ON chunk (collection, created_at, seq);

CREATE TABLE chunk_meta (
    chunk_id TEXT NOT NULL REFERENCES chunk (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (chunk_id, name)
);

CREATE INDEX chunk_meta_by_value ON chunk_meta (name, value);

-- The words of each chunk. The table has no text of its own: it reads that of `chunk`.
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, text, content = 'chunk', content_rowid = 'seq', tokenize = 'porter unicode61'
);

CREATE TRIGGER chunk_words_added AFTER INSERT ON chunk BEGIN
    INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

CREATE TRIGGER chunk_words_removed AFTER DELETE ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); END;

CREATE TRIGGER chunk_words_changed AFTER UPDATE OF title, text ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

-- A chunk may have none yet: it is found by its words until then. Half-precision numbers of a vector of length 1.
CREATE TABLE embedding (
    seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL UNIQUE REFERENCES chunk (seq) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
);

CREATE INDEX embedding_by_collection ON embedding (collection, seq);

-- Embeddings that are gone, by the number of that change: what an index outside of the database has to drop.
CREATE TABLE embedding_removal (
    embedding_seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    collection TEXT NOT NULL
);

CREATE INDEX embedding_removal_by_collection ON embedding_removal (collection, seq);

-- What the chunk of a learning does not have; its text and concepts are those of its chunk, and are deleted with it.
CREATE TABLE learning (
    id TEXT PRIMARY KEY REFERENCES chunk (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    module TEXT NOT NULL,
    preference INTEGER NOT NULL CHECK (preference IN (0, 1)),
    outcome TEXT,
    commit_sha TEXT NOT NULL,
    log TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    contradicts TEXT NOT NULL,
    triggers INTEGER NOT NULL,
    triggered_at TEXT
);

CREATE INDEX learning_by_fingerprint ON learning (fingerprint) WHERE fingerprint <> '';
