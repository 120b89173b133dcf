"""The gateways of plans: goals, actions, facts, planning turns, and what may run at the same time."""
