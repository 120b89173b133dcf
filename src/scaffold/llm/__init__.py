"""Models: cassettes and the rules for asking again."""
