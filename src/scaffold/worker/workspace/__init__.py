"""Where an attempt works: its worktree, its commits, and how nothing of its work is lost."""
