-- How many workers of a goal, and of an action, died in a row, and until when the goal starts no other one.
-- `died_seq` is the number of the event that says when the last counted one died: those that ran then count no more.
ALTER TABLE goal ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE goal ADD COLUMN died_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE goal ADD COLUMN rests_from TEXT;
ALTER TABLE goal ADD COLUMN rests_until TEXT;
ALTER TABLE action ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
