"""What agents and their user remember: writing, finding, forgetting. Texts are data here, never orders."""
