-- An endpoint may be unavailable, too: failures in a row are counted before there is any limit. What is known of limits is
-- forgotten, which costs a few requests; requests under way are counted again.
UPDATE schema_migration SET readable_from = 2;
DELETE FROM ticket;
DROP TABLE endpoint_throttle;
CREATE TABLE endpoint_throttle (
    name TEXT PRIMARY KEY,
    cooldown_from_s DOUBLE PRECISION NOT NULL,
    cooldown_until_s DOUBLE PRECISION NOT NULL,
    cooldowns INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    max_in_flight INTEGER,
    restore_at INTEGER NOT NULL,
    successes INTEGER NOT NULL
);
