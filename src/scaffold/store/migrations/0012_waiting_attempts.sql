-- The inbox item that an attempt's worker waits for: meanwhile the attempt holds no slot of its run.
-- Older programs do not know the event that says so.
ALTER TABLE attempt ADD COLUMN waits_for TEXT REFERENCES inbox (id);
UPDATE schema_migration SET readable_from = 12;
