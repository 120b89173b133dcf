-- Facts and verifications say why their evidence may not be enough, instead of only that it is weak.
UPDATE schema_migration SET readable_from = 2;
ALTER TABLE fact ADD COLUMN doubts TEXT NOT NULL DEFAULT '[]';
ALTER TABLE fact ADD COLUMN reviewed INTEGER NOT NULL DEFAULT 0 CHECK (reviewed IN (0, 1));
UPDATE fact SET doubts = '[{"code":"passes_without_work","text":"no check failed before the work"}]' WHERE weak = 1;
ALTER TABLE fact DROP COLUMN weak;
UPDATE attempt SET verification = replace(
    verification, '"weak":true', '"doubts":[{"code":"passes_without_work","text":"no check failed before the work"}]'
) WHERE verification IS NOT NULL;
