-- Of the attempts in a shared worktree, one is open; and why edits were rejected, until the story's notes say so.
CREATE UNIQUE INDEX attempt_open_in_workspace ON attempt (workspace) WHERE workspace <> '' AND status <> 'ended';
ALTER TABLE attempt ADD COLUMN refused_edits TEXT;
