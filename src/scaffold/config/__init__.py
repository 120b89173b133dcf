"""Settings: the schema, the layers of configuration, folder trust, and their effect on a run."""
