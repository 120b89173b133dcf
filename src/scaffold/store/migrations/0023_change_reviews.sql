-- What a human is shown of a change before it lands; it goes with the question.
CREATE TABLE inbox_shown (
    item_id TEXT PRIMARY KEY REFERENCES inbox (id),
    shown TEXT NOT NULL
);
