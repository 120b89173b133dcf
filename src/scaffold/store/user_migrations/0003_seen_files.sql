-- What a conversation knows of files, so that a resumed one need not read them again. `version` is the digest of a
-- file's content, or for a long file its device, inode, size and time of change.
CREATE TABLE seen_file (
    conversation_id TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    version TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (conversation_id, path)
);
