-- When each goal last got a slot, as the number of the event that says so: goals get slots in turn.
ALTER TABLE goal ADD COLUMN served_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX goal_by_status ON goal (run_id, status);

-- With the assertion, so that it gives the order asked for; otherwise SQLite reads all facts of the goal instead.
DROP INDEX fact_stale;
CREATE INDEX fact_stale ON fact (goal_id, assertion) WHERE state = 'stale';
