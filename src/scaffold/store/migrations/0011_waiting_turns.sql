-- The conversation of an attempt whose agent waits for a human, so that the next attempt can continue it.
CREATE TABLE waiting_turn (
    attempt_id TEXT PRIMARY KEY REFERENCES attempt (id),
    turn TEXT NOT NULL
);
