"""Git by its command line: refs, worktrees, merges in memory. Hooks and configured programs stay off."""
