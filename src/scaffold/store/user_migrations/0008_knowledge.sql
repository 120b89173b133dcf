-- What the user's agents remember for all folders, and documents: the same tables as in the database of a repository.

-- One row: the number of the last change. What is derived from these tables knows by it what it has not seen.
CREATE TABLE knowledge_change (number INTEGER NOT NULL);
INSERT INTO knowledge_change VALUES (0);

CREATE TABLE collection (
    name TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    error TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX document_by_collection ON document (collection);

CREATE TABLE chunk (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    text TEXT NOT NULL,
    title TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    document_id TEXT REFERENCES document (id) ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    end_char INTEGER NOT NULL,
    page INTEGER NOT NULL,
    source TEXT NOT NULL,
    meta TEXT NOT NULL,
    state TEXT NOT NULL,
    valid_from TEXT NOT NULL,
    valid_until TEXT,
    superseded_by TEXT,
    created_at TEXT NOT NULL
);

-- A text that was superseded may be stored once more.
CREATE UNIQUE INDEX chunk_by_text ON chunk (collection, sha256, COALESCE(document_id, ''), start_char)
    WHERE valid_until IS NULL;
CREATE INDEX chunk_by_document ON chunk (document_id, start_char) WHERE document_id IS NOT NULL;
CREATE INDEX chunk_by_source ON chunk (source);
CREATE INDEX chunk_by_time ON chunk (collection, created_at, seq);

CREATE TABLE chunk_meta (
    chunk_id TEXT NOT NULL REFERENCES chunk (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (chunk_id, name)
);

CREATE INDEX chunk_meta_by_value ON chunk_meta (name, value);

-- The words of each chunk. In SQLite the table has no text of its own: it reads that of `chunk`.
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, text, content = 'chunk', content_rowid = 'seq', tokenize = 'porter unicode61'
);

CREATE TRIGGER chunk_words_added AFTER INSERT ON chunk BEGIN
    INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

CREATE TRIGGER chunk_words_removed AFTER DELETE ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); END;

CREATE TRIGGER chunk_words_changed AFTER UPDATE OF title, text ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

-- A chunk may have none yet: it is found by its words until then. Half-precision numbers of a vector of length 1.
CREATE TABLE embedding (
    seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL UNIQUE REFERENCES chunk (seq) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
);

CREATE INDEX embedding_by_collection ON embedding (collection, seq);

-- Embeddings that are gone, by the number of that change: what an index outside of the database has to drop.
CREATE TABLE embedding_removal (
    embedding_seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    collection TEXT NOT NULL
);

CREATE INDEX embedding_removal_by_collection ON embedding_removal (collection, seq);
