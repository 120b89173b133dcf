-- The messages of kept turns, a row each, by the attempt or the scope of the planning turn: a turn that has come further
-- stores what is new of it. Turns that were kept before have theirs in their own row.
CREATE TABLE kept_message (
    scope TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (scope, seq)
);
