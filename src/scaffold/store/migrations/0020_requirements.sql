-- The requirements of the specification that a run implements until an audit finds them met.
CREATE TABLE requirement (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (run_id, position)
);
