-- A random mark for each of the last changes, as in the database of a repository.
CREATE TABLE knowledge_mark (number INTEGER PRIMARY KEY, mark TEXT NOT NULL);

INSERT INTO knowledge_mark SELECT number, lower(hex(randomblob(8))) FROM knowledge_change;
