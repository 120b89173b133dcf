"""Runs of a plan on a virtual clock, to predict how long it takes with a given number of agents."""
