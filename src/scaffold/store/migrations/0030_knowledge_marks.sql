-- A random mark for each of the last changes: who knows the number and the mark of a change knows whether this database
-- was in that state before. After a backup was restored, numbers come back, marks do not.
CREATE TABLE knowledge_mark (number INTEGER PRIMARY KEY, mark TEXT NOT NULL);

-- only: sqlite
INSERT INTO knowledge_mark SELECT number, lower(hex(randomblob(8))) FROM knowledge_change;

-- only: postgres
INSERT INTO knowledge_mark SELECT number, md5(random()::TEXT) FROM knowledge_change;
