"""The built-in tools of an agent: files, search and shell inside one workspace."""
