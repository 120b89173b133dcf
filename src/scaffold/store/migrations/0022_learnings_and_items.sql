-- What earlier work showed (learnings), which attempts were given it, and items that people and agents write down.
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
-- only: sqlite
CREATE VIRTUAL TABLE learning_text USING fts5 (id UNINDEXED, words, tokenize = 'porter unicode61');

-- only: postgres
CREATE TABLE learning_text (id TEXT NOT NULL, words TEXT NOT NULL);

-- only: postgres
CREATE INDEX learning_text_words ON learning_text USING gin (to_tsvector('english', words));

-- Which learnings were found for an attempt: given to it, or withheld for comparison. What became of it is in its row.
-- A learning may be one of the user's database, or be forgotten.
CREATE TABLE learning_use (
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    learning_id TEXT NOT NULL,
    given INTEGER NOT NULL CHECK (given IN (0, 1)),
    moment TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, learning_id)
);

CREATE INDEX learning_use_by_learning ON learning_use (learning_id);

CREATE TABLE work_item (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL,
    parent_id TEXT REFERENCES work_item (id),
    project TEXT NOT NULL,
    labels TEXT NOT NULL,
    run_id TEXT NOT NULL,
    action_key TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    by_agent INTEGER NOT NULL CHECK (by_agent IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX work_item_by_status ON work_item (status);
CREATE INDEX work_item_by_attempt ON work_item (attempt_id) WHERE attempt_id <> '';

CREATE TABLE work_item_blocker (
    item_id TEXT NOT NULL REFERENCES work_item (id),
    blocked_by TEXT NOT NULL REFERENCES work_item (id),
    PRIMARY KEY (item_id, blocked_by)
);

CREATE TABLE work_item_log (
    item_id TEXT NOT NULL REFERENCES work_item (id),
    position INTEGER NOT NULL,
    at TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (item_id, position)
);
