"""Gates: which commands judge a repository, and what one run of such a command shows, by its runner's own report."""
