-- The failure of each attempt as it can be compared, what followed from it, and whether the attempt was to take another
-- approach than those before.
ALTER TABLE attempt ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN escalation TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN alternative INTEGER NOT NULL DEFAULT 0 CHECK (alternative IN (0, 1));
