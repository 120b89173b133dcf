"""Find secrets in files, environments and texts; keep them from commands, and redact them."""
