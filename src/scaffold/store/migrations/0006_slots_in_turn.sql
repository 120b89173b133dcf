-- When each goal last got a slot, as the number of the event that says so: goals get slots in turn.
ALTER TABLE goal ADD COLUMN served_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX goal_by_status ON goal (run_id, status);
