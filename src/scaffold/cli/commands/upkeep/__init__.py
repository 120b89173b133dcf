"""Look after what runs leave behind: worktrees, unlanded work, state."""
