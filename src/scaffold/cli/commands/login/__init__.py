"""`ralph login`, `logout` and `whoami`."""
