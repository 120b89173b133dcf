"""The vocabulary of the house: values, states, events, errors and ports. Pure; imports msgspec and nothing else."""
