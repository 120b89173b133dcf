"""Changes to a plan: drafts, repair, proposed actions and their limits."""
