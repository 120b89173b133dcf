-- Results of gates and checks are found again by the tree that they ran on, whatever commit had it. Earlier results stay
-- with the baseline that they belong to: their commit takes the place of the tree, and no tree has the id of a commit.
UPDATE schema_migration SET readable_from = 4;
ALTER TABLE gate_run RENAME COLUMN commit_sha TO tree_sha;
ALTER TABLE baseline ADD COLUMN tree_sha TEXT NOT NULL DEFAULT '';
DELETE FROM gate_run WHERE tree_sha NOT IN (SELECT run.base_sha FROM baseline JOIN run ON run.id = baseline.run_id);
UPDATE baseline SET tree_sha = (SELECT base_sha FROM run WHERE run.id = baseline.run_id);
