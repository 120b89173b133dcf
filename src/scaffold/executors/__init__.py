"""Other coding agents: one turn of each by the protocol that it speaks, told in events of ours."""
