"""What an attempt is given: its assignment, contract, time, and the lease under which it may write."""
