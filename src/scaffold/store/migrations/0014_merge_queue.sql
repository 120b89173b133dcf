-- The commit of an attempt among those that one update of the branch lands; NULL in intents from before.
ALTER TABLE intent ADD COLUMN commit_sha TEXT;
CREATE INDEX intent_by_run ON intent (run_id, position);
CREATE INDEX attempt_conflict ON attempt (run_id) WHERE outcome = 'conflict';

-- How the owner has arranged the candidates that wait to land; only for people.
CREATE TABLE merge_queue (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    fence INTEGER NOT NULL,
    places TEXT NOT NULL
);
