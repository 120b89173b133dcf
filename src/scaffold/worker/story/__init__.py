"""Steps of a story: their prompts, their shared files, and what their agents hand over to later steps."""
