"""Work outside a run: cleanup, purge, salvage, and the files of `.scaffold/`."""
