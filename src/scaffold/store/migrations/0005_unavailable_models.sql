-- The end of an attempt's time, on the monotonic clock: it moves while the attempt's model accepts no requests.
ALTER TABLE attempt ADD COLUMN ends_at DOUBLE PRECISION;
-- What a run waits for outside of itself: an endpoint that is down or limited. Empty while it waits for nothing.
ALTER TABLE run ADD COLUMN waits_for TEXT NOT NULL DEFAULT '';
