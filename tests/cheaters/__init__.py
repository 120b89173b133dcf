"""Workers that cheat and workers that do not: the same small task, the real command, and an oracle nobody can bribe."""
