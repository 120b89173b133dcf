-- The user's login at a provider whose models a subscription pays: one row each. `tokens` is encrypted; its key is
-- elsewhere. `renewing_since` is set while a refresh token is being used, which works once. `ended` says why the
-- provider no longer accepts it; empty while it does.
CREATE TABLE login (
    provider TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    tokens BLOB NOT NULL,
    key_place TEXT NOT NULL,
    key_name TEXT NOT NULL,
    renewals INTEGER NOT NULL,
    renewing_since TEXT,
    ended TEXT NOT NULL,
    created_at TEXT NOT NULL,
    renewed_at TEXT NOT NULL
);
