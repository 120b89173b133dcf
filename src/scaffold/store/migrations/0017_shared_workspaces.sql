-- Attempts at steps of a compound share a worktree, one after another, and may change nothing.
ALTER TABLE attempt ADD COLUMN kind TEXT NOT NULL DEFAULT 'change';
ALTER TABLE attempt ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN start_sha TEXT;

CREATE INDEX attempt_by_workspace ON attempt (workspace, queued_seq) WHERE workspace <> '';
