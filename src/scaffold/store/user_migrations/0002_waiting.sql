-- The repositories in which the user has had a run: `root` is the checkout it was last used from.
CREATE TABLE repository (
    common_dir TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    used_at TEXT NOT NULL
);
