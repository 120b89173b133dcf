"""Run a contract's checks, compare them with the base, and detect tampering."""
