"""The collision rules asked about a run: what its store and its repository say of running and ready work."""
