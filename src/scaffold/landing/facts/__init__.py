"""The facts of a run as the store has them: the evidence of landings, steps, and facts that became stale."""
