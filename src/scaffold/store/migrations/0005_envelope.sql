-- One mailbox for runs and sessions: what it keeps is called an envelope, and whose it is, a scope (here: a run's id).

ALTER TABLE message RENAME TO envelope;
ALTER TABLE envelope RENAME COLUMN run_id TO scope;
ALTER TABLE subscription RENAME COLUMN run_id TO scope;
DROP INDEX message_waiting;
CREATE INDEX envelope_waiting ON envelope (scope, recipient, seq) WHERE consumed_at IS NULL;
UPDATE schema_version SET readable_from = 5;
