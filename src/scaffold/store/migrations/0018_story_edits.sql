-- Changes of a story's steps that its agents asked for, and those that were made.
ALTER TABLE attempt ADD COLUMN edits TEXT;

CREATE TABLE story_history (
    story_id TEXT NOT NULL REFERENCES action (id),
    position INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (story_id, position)
);
