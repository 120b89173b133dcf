"""The dependency graph of a plan: reachability, cycles, levels, readiness."""
