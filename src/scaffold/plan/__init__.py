"""Pure planning: plan files, lint, readiness, decisions and simulation. Values in, values out."""
