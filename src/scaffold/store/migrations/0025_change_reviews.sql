-- What a human is shown of a change before it lands; it goes with the question.
CREATE TABLE inbox_shown (
    item_id TEXT PRIMARY KEY REFERENCES inbox (id),
    shown TEXT NOT NULL
);

-- What agents assumed where no human was asked.
CREATE TABLE assumption (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    action_id TEXT NOT NULL REFERENCES action (id),
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    question TEXT NOT NULL,
    assumed TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, question)
);
CREATE INDEX assumption_of_run ON assumption (run_id, position);

-- The verdicts of second reviewers, also about versions of a change that were reworked within an attempt.
CREATE TABLE review_verdict (
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    change TEXT NOT NULL,
    model TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('approve', 'reject')),
    given_at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, change, model)
);
CREATE INDEX review_verdict_of_action ON review_verdict (action_id);
