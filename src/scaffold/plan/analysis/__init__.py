"""Analysis of a plan: lint, explanation, diff, advice on the number of agents."""
