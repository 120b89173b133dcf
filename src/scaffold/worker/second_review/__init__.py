"""The second reviewer: judges what no program can decide about work that passed its checks."""
