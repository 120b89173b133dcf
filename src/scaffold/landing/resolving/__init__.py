"""Conflicts that take time to resolve: by a merge agent, by the tools of lock files, while others are proven."""
