"""Services that checks speak to: those beside a check, in its sandbox, and those outside of it."""
