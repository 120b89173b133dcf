-- A decision holds for those who asked, and maybe for more, and for a time. Attempts can end `waiting`, an outcome that older programs do not know.

ALTER TABLE inbox ADD COLUMN scope TEXT NOT NULL DEFAULT 'run';
ALTER TABLE inbox ADD COLUMN holds_until TEXT;
CREATE TABLE asker (
    item_id TEXT NOT NULL REFERENCES inbox (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    PRIMARY KEY (item_id, action_id)
);

CREATE INDEX inbox_by_fingerprint ON inbox (run_id, fingerprint, state);
UPDATE run SET settings = REPLACE(settings, '"sandbox":"none"', '"sandbox":"auto"');
UPDATE schema_version SET readable_from = 6;
