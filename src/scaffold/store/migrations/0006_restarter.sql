-- The process that starts another owner of the run if the owner is killed; NULL if nobody does.
ALTER TABLE run ADD COLUMN restarter TEXT;
