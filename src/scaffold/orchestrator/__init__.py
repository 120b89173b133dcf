"""Run ownership, supervisors, planning, the engine, recovery and upkeep."""
