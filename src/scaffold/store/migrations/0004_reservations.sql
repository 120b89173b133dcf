-- What requests under way may cost, and who waits until others settle: so all processes together keep to a limit.

CREATE TABLE reservation (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    payer TEXT NOT NULL,
    position INTEGER NOT NULL,
    usd DOUBLE PRECISION,
    held INTEGER NOT NULL CHECK (held IN (0, 1)),
    owner TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (account, position)
);
