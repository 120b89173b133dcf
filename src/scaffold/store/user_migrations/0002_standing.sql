-- How a conversation stands besides what was said in it: its mode, and what its agent has to do, as JSON.

ALTER TABLE conversation ADD COLUMN mode TEXT NOT NULL DEFAULT 'default';
ALTER TABLE conversation ADD COLUMN todos TEXT NOT NULL DEFAULT '{}';
