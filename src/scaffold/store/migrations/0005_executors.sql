-- Who works: chosen by a plan for an action, and the version of the program that made an attempt.
ALTER TABLE action ADD COLUMN executor TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN executor_version TEXT NOT NULL DEFAULT '';
