"""The name of the provider of a subscription's models, as in their model strings."""

CODEX = "codex"
