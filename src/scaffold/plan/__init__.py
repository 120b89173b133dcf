"""Pure planning: reading plans, lint, readiness and decisions; values in, values out."""
