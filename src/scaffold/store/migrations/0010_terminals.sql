-- The processes that ask an item of the inbox at a terminal; a row counts only while its process lives.
CREATE TABLE inbox_terminal (
    item_id TEXT NOT NULL REFERENCES inbox (id),
    process TEXT NOT NULL,
    PRIMARY KEY (item_id, process)
);
