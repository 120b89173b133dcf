"""Recovers a run whose owner died: its attempts, landings, worktrees and temporary files."""
