-- What the user has learned or prefers, for all repositories: the same tables as in the database of each.
CREATE TABLE learning (
    id TEXT PRIMARY KEY,
    condition TEXT NOT NULL,
    advice TEXT NOT NULL,
    result TEXT NOT NULL,
    scope TEXT NOT NULL,
    module TEXT NOT NULL,
    preference INTEGER NOT NULL CHECK (preference IN (0, 1)),
    outcome TEXT,
    commit_sha TEXT NOT NULL,
    log TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    source TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    contradicts TEXT NOT NULL,
    superseded_by TEXT NOT NULL,
    triggers INTEGER NOT NULL,
    triggered_at TEXT,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
);

CREATE INDEX learning_by_fingerprint ON learning (fingerprint) WHERE fingerprint <> '';

CREATE TABLE learning_concept (
    learning_id TEXT NOT NULL REFERENCES learning (id) ON DELETE CASCADE,
    concept TEXT NOT NULL,
    PRIMARY KEY (learning_id, concept)
);

-- The words of each learning, for full-text search.
CREATE VIRTUAL TABLE learning_text USING fts5 (id UNINDEXED, words, tokenize = 'porter unicode61');
