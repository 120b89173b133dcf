"""A run of a plan with a virtual clock, to predict how long it takes with so many agents."""
