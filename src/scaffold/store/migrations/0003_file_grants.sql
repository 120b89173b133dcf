-- Entries that were added to an action's `files` because its agent asked for them; never changed or removed.
CREATE TABLE file_grant (
    action_id TEXT NOT NULL REFERENCES action (id),
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (action_id, path, granted_by)
);
