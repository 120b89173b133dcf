"""Settings: the schema, the layers of configuration, folder trust, and what they mean for a run."""
