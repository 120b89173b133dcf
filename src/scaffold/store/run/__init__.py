"""The aggregates of a repository's database: runs, goals, actions, attempts, facts and so on."""
