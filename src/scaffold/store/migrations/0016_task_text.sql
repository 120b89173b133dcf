-- What an action asks for, in fields of its own, and where its attempts work.
ALTER TABLE action ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN acceptance TEXT NOT NULL DEFAULT '[]';
ALTER TABLE action ADD COLUMN verification_intent TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN type TEXT;
ALTER TABLE action ADD COLUMN notes TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN workspace TEXT NOT NULL DEFAULT 'own';
