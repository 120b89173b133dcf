"""The self-check of `ralph`: models that make common mistakes on purpose, and how soon its answers put them right."""
