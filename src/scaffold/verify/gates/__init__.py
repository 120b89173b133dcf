"""Gates: detect the commands that judge a repository, run one, and read its runner's report."""
