-- A run that the user has not agreed to start has a status of its own, which older programs do not know.
UPDATE run SET status = 'saved', reason = NULL WHERE status = 'paused' AND reason = 'waits for your go-ahead';
UPDATE schema_migration SET readable_from = 9;

-- The order in which something last happened in the runs; it does not depend on the clock.
ALTER TABLE run ADD COLUMN touched INTEGER NOT NULL DEFAULT 0;
UPDATE run SET touched = position;
CREATE INDEX run_touched ON run (touched);
