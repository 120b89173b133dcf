"""Commands for what runs leave behind: worktrees, unlanded work, state."""
