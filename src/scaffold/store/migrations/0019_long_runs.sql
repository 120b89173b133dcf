-- What a landing asks for is found without reading what the run has done before.

-- Which facts may depend on a path, by its checksum; whether they do is read from the fact itself.
CREATE TABLE fact_path (
    run_id TEXT NOT NULL REFERENCES run (id),
    checksum BIGINT NOT NULL,
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (run_id, checksum, goal_id, assertion)
);

-- No path has this checksum: a fact from before may depend on any.
INSERT INTO fact_path (run_id, checksum, goal_id, assertion)
SELECT goal.run_id, -1, fact.goal_id, fact.assertion FROM fact JOIN goal ON goal.id = fact.goal_id;

-- Made again after `intent_by_run`: of two that fit, SQLite takes the later one, and the other has all that have landed.
DROP INDEX intent_open;
CREATE INDEX intent_open ON intent (run_id, position) WHERE status = 'open';

-- Whether the work settles tests of the base; 1 for attempts from before, whose verification is read to find out.
ALTER TABLE attempt ADD COLUMN settles_tests INTEGER NOT NULL DEFAULT 1 CHECK (settles_tests IN (0, 1));
CREATE INDEX attempt_settling_tests ON attempt (run_id) WHERE outcome = 'landed' AND settles_tests = 1;
