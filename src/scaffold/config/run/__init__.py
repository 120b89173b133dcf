"""The settings of one run: its tier, its models, its limits, and all of them together."""
