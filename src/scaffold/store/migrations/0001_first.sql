-- Everything a repository's runs are made of. Kept to what SQLite and PostgreSQL both understand:
-- times are ISO-8601 text in UTC, lists and values are JSON text, truth is 0 or 1.
-- No statement here holds a semicolon but its last character.

CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
);

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL UNIQUE,
    request TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    base_branch TEXT,
    base_sha TEXT NOT NULL,
    session_branch TEXT NOT NULL,
    settings TEXT NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT,
    wish TEXT,
    last_seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX run_by_input ON run (input_hash);

CREATE TABLE goal (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    desired TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    summary TEXT NOT NULL,
    persistent INTEGER NOT NULL CHECK (persistent IN (0, 1)),
    worker_cap INTEGER NOT NULL,
    supervisor TEXT,
    supervisor_started_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (run_id, name),
    UNIQUE (run_id, position)
);

CREATE TABLE action (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    goal_id TEXT NOT NULL REFERENCES goal (id),
    parent_id TEXT REFERENCES action (id) DEFERRABLE INITIALLY DEFERRED,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    method TEXT NOT NULL,
    role TEXT NOT NULL,
    preconditions TEXT NOT NULL,
    effects TEXT NOT NULL,
    files TEXT NOT NULL,
    contract TEXT,
    status TEXT NOT NULL,
    reason TEXT,
    result TEXT,
    unmet INTEGER NOT NULL CHECK (unmet >= 0),
    failures INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (run_id, key)
);

CREATE INDEX action_in_order ON action (run_id, position, id);
CREATE INDEX action_by_status ON action (goal_id, status);
CREATE INDEX action_by_parent ON action (parent_id, status);
CREATE INDEX action_ready ON action (goal_id, position, id) WHERE status = 'pending' AND unmet = 0;

CREATE TABLE precondition (
    action_id TEXT NOT NULL REFERENCES action (id),
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (action_id, assertion)
);

CREATE INDEX precondition_by_assertion ON precondition (goal_id, assertion, action_id);

CREATE TABLE effect (
    action_id TEXT NOT NULL REFERENCES action (id),
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (action_id, assertion)
);

CREATE INDEX effect_by_assertion ON effect (goal_id, assertion, action_id);

CREATE TABLE attempt (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    number INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    outcome TEXT,
    executor TEXT NOT NULL,
    model TEXT NOT NULL,
    worker TEXT,
    worktree TEXT,
    base_sha TEXT NOT NULL,
    head_sha TEXT,
    briefing TEXT NOT NULL,
    verification TEXT,
    result TEXT,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    requests INTEGER NOT NULL,
    log_file TEXT,
    error TEXT,
    queued_at TEXT NOT NULL,
    queued_seq INTEGER NOT NULL,
    started_at TEXT,
    candidate_seq INTEGER,
    ended_at TEXT,
    UNIQUE (action_id, number)
);

CREATE UNIQUE INDEX attempt_open ON attempt (action_id) WHERE status <> 'ended';
CREATE INDEX attempt_by_run ON attempt (run_id, status, queued_seq);

CREATE TABLE fact (
    goal_id TEXT NOT NULL REFERENCES goal (id),
    assertion TEXT NOT NULL,
    state TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    weak INTEGER NOT NULL CHECK (weak IN (0, 1)),
    paths TEXT NOT NULL,
    evidence TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (goal_id, assertion)
);

CREATE TABLE intent (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    fence INTEGER NOT NULL,
    ref TEXT NOT NULL,
    old_sha TEXT NOT NULL,
    new_sha TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    settled_at TEXT,
    UNIQUE (run_id, position)
);

CREATE INDEX intent_open ON intent (run_id, position) WHERE status = 'open';

CREATE TABLE event (
    run_id TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
