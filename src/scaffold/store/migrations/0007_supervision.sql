-- Turns of planners and supervisors, wishes about goals and actions, signs of life, and what a replan has dealt with.
-- Older programs do not know the events of supervisors.

ALTER TABLE run ADD COLUMN beat DOUBLE PRECISION;
ALTER TABLE action ADD COLUMN guidance TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN extra_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE action ADD COLUMN accounted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN beat DOUBLE PRECISION;
ALTER TABLE attempt ADD COLUMN iteration INTEGER NOT NULL DEFAULT 0;

CREATE TABLE turn (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    goal_id TEXT REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    event TEXT NOT NULL,
    facts INTEGER NOT NULL,
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

CREATE INDEX turn_by_goal ON turn (goal_id, event, action_id);

CREATE TABLE wish (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    goal_id TEXT NOT NULL REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    created_at TEXT NOT NULL,
    settled_at TEXT,
    UNIQUE (run_id, position)
);

CREATE VIEW payment AS
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM attempt
UNION ALL
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM turn;

UPDATE schema_version SET readable_from = 7;
