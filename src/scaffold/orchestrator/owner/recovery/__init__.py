"""What a run that lost its owner goes on with: its attempts, what the dead left, and whether there was progress."""
