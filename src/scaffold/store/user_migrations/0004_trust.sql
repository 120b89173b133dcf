-- What of a folder's own configuration its user agreed to: each decision is a set of files with their digests, as JSON.

CREATE TABLE trust (
    identity TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    files TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (identity, fingerprint)
);
