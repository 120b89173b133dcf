-- What a critic gave the work of an attempt last.

ALTER TABLE attempt ADD COLUMN score TEXT;
