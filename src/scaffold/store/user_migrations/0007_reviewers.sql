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
