"""Commands that prepare this program for a repository and a user: configuration, trust, login, permissions."""
