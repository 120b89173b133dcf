-- Learnings move into the tables of what is known, as in the database of a repository.
UPDATE schema_migration SET readable_from = 9;

INSERT INTO collection (name, model, dimension, capacity, created_at)
SELECT 'learnings', '', 0, 100000, first FROM (SELECT MIN(created_at) AS first FROM learning) AS earliest
WHERE first IS NOT NULL;

-- The parts of a learning are lines of its text. The hash only has to differ; another text gets one of its own.
INSERT INTO chunk (seq, id, collection, text, title, sha256, document_id, start_char, end_char, page, source, meta,
                   state, valid_from, valid_until, superseded_by, created_at)
SELECT (SELECT number FROM knowledge_change) + ROW_NUMBER() OVER (ORDER BY created_at, id), id, 'learnings',
       replace(condition, '
', ' ') || '
' || replace(advice, '
', ' ') || '
' || replace(result, '
', ' '),
       module, id, NULL, 0, 0, 0,
       CASE WHEN attempt_id <> '' THEN 'attempt:' || attempt_id WHEN source = 'human' THEN 'user' ELSE source END, '{}',
       CASE WHEN superseded_by <> '' THEN 'superseded' WHEN attempt_id = '' THEN 'active' ELSE 'unconfirmed' END,
       changed_at,
       CASE WHEN superseded_by <> '' THEN COALESCE(
           (SELECT other.created_at FROM learning AS other WHERE other.id = learning.superseded_by), changed_at
       ) END,
       NULLIF(superseded_by, ''), created_at
FROM learning;

UPDATE knowledge_change SET number = number + (SELECT COUNT(*) FROM learning);

INSERT INTO chunk_meta (chunk_id, name, value) SELECT learning_id, '#' || concept, '' FROM learning_concept;

UPDATE chunk SET
    meta = (SELECT json_group_object('#' || concept, '') FROM learning_concept WHERE learning_id = chunk.id),
    title = trim(title || ' ' || (SELECT group_concat(concept, ' ') FROM learning_concept WHERE learning_id = chunk.id))
WHERE id IN (SELECT learning_id FROM learning_concept);

CREATE TABLE learning_of_chunk (
    id TEXT PRIMARY KEY REFERENCES chunk (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    module TEXT NOT NULL,
    preference INTEGER NOT NULL CHECK (preference IN (0, 1)),
    outcome TEXT,
    commit_sha TEXT NOT NULL,
    log TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    contradicts TEXT NOT NULL,
    triggers INTEGER NOT NULL,
    triggered_at TEXT
);

INSERT INTO learning_of_chunk
SELECT id, scope, module, preference, outcome, commit_sha, log, fingerprint, contradicts, triggers, triggered_at
FROM learning;

DROP TABLE learning_text;
DROP TABLE learning_concept;
DROP TABLE learning;
ALTER TABLE learning_of_chunk RENAME TO learning;
CREATE INDEX learning_by_fingerprint ON learning (fingerprint) WHERE fingerprint <> '';
