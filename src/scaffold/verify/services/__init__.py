"""Start the services that checks need, inside the sandbox of a check or outside of it."""
