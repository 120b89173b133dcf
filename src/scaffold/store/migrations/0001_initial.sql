-- The database of a repository: its runs and everything they consist of.
-- The statements run on both SQLite and PostgreSQL: times are ISO-8601 text in UTC, lists and values are JSON text,
-- booleans are 0 or 1. A semicolon stands only at the end of a statement.

-- One row per migration. `readable_from` is the oldest schema whose programs may still read this one.
CREATE TABLE schema_migration (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL,
    readable_from INTEGER NOT NULL DEFAULT 1
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
    heartbeat_at DOUBLE PRECISION,
    control_request TEXT,
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
    guidance TEXT NOT NULL DEFAULT '',
    extra_attempts INTEGER NOT NULL DEFAULT 0,
    unmet INTEGER NOT NULL CHECK (unmet >= 0),
    failures INTEGER NOT NULL,
    failure_handled INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (run_id, key)
);

CREATE INDEX action_by_position ON action (run_id, position, id);
CREATE INDEX action_by_status ON action (goal_id, status);
CREATE INDEX action_by_parent ON action (parent_id, status);
CREATE INDEX action_ready ON action (goal_id, position, id) WHERE status = 'pending' AND unmet = 0;

-- How many actions of a goal have each status, so that a supervisor's step costs the same in plans of any size.
CREATE TABLE action_status_count (
    goal_id TEXT NOT NULL REFERENCES goal (id),
    status TEXT NOT NULL,
    action_count INTEGER NOT NULL,
    PRIMARY KEY (goal_id, status)
);

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
    heartbeat_at DOUBLE PRECISION,
    worktree TEXT,
    base_sha TEXT NOT NULL,
    head_sha TEXT,
    briefing TEXT NOT NULL,
    iteration INTEGER NOT NULL DEFAULT 0,
    verification TEXT,
    score TEXT,
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

-- At most one open attempt per action: dispatch is exactly-once.
CREATE UNIQUE INDEX attempt_open ON attempt (action_id) WHERE status <> 'ended';
CREATE INDEX attempt_by_run ON attempt (run_id, status, queued_seq);

-- A turn of the planner, or of a supervisor's agent.
CREATE TABLE planning_turn (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    goal_id TEXT REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    event TEXT NOT NULL,
    facts_at_start INTEGER NOT NULL,
    outcome TEXT,
    error TEXT,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    requests INTEGER NOT NULL,
    log_file TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    UNIQUE (run_id, position)
);

CREATE INDEX planning_turn_by_goal ON planning_turn (goal_id, event, action_id);

CREATE VIEW usage_record AS
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM attempt
UNION ALL
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM planning_turn;

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

-- Every look at a goal asks for its stale facts.
CREATE INDEX fact_stale ON fact (goal_id) WHERE state = 'stale';

CREATE TABLE sealed_contract (
    action_id TEXT NOT NULL REFERENCES action (id),
    phase TEXT NOT NULL,
    body TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (action_id, phase)
);

-- Results of gates by commit, so that a later run can reuse them as its baseline.
CREATE TABLE gate_run (
    commit_sha TEXT NOT NULL,
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    environment TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (commit_sha, folder, command, environment)
);

CREATE TABLE baseline (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    environment TEXT NOT NULL,
    gates TEXT NOT NULL,
    created_at TEXT NOT NULL
);

-- Written before each ref update, so that a crash between the two can be resolved.
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
    resolved_at TEXT,
    UNIQUE (run_id, position)
);

CREATE INDEX intent_open ON intent (run_id, position) WHERE status = 'open';

-- What a user asked of a goal or an action (stop, pause, cancel, resume), until the run's owner has done it.
CREATE TABLE control_request (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    goal_id TEXT NOT NULL REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    created_at TEXT NOT NULL,
    completed_at TEXT,
    UNIQUE (run_id, position)
);

-- Approvals, questions and notices for the user.
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
    scope TEXT NOT NULL DEFAULT 'run',
    created_at TEXT NOT NULL,
    decided_at TEXT,
    expires_at TEXT,
    valid_until TEXT,
    fingerprint TEXT NOT NULL,
    UNIQUE (run_id, position)
);

CREATE UNIQUE INDEX inbox_open ON inbox (run_id, fingerprint) WHERE state = 'open';
CREATE INDEX inbox_by_fingerprint ON inbox (run_id, fingerprint, state);

-- The actions that wait for the decision of an inbox item.
CREATE TABLE inbox_asker (
    item_id TEXT NOT NULL REFERENCES inbox (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    PRIMARY KEY (item_id, action_id)
);

CREATE TABLE subscription (
    scope TEXT NOT NULL REFERENCES run (id),
    channel TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (scope, channel, subscriber)
);

-- Messages between the agents of a run; `scope` is the run's id.
CREATE TABLE envelope (
    scope TEXT NOT NULL REFERENCES run (id),
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

-- Money set aside for requests under way, and the queue of those that wait for it: all processes share one limit.
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

CREATE TABLE event (
    run_id TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Each notice is recorded once in a run, and looked for before; most events are none.
CREATE INDEX event_notice ON event (run_id) WHERE substr(body, 1, 23) = '{"type":"notice_raised"';
