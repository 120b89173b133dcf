-- The repositories in which the user has had a run: `root` is the checkout it was last used from.
CREATE TABLE repository (
    common_dir TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    used_at TEXT NOT NULL
);

-- What a user is still to be told, by each channel; a row goes when it was delivered, or given up.
CREATE TABLE notification (
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    body TEXT NOT NULL,
    variables TEXT NOT NULL,
    due_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    sender TEXT,
    PRIMARY KEY (id, channel)
);

CREATE INDEX notification_due ON notification (due_at);

-- What was put there already: nothing is put there twice.
CREATE TABLE notification_seen (
    id TEXT PRIMARY KEY,
    at TEXT NOT NULL
);

-- How far the events of each run in progress were read for notifications.
CREATE TABLE notification_feed (
    run_id TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    seq INTEGER NOT NULL
);
