-- How many actions of a goal have each status: what a supervisor asks at every step costs the same in plans of any size.

CREATE TABLE tally (
    goal_id TEXT NOT NULL REFERENCES goal (id),
    status TEXT NOT NULL,
    actions INTEGER NOT NULL,
    PRIMARY KEY (goal_id, status)
);

INSERT INTO tally (goal_id, status, actions)
SELECT goal_id, status, COUNT(*) FROM action GROUP BY goal_id, status;
