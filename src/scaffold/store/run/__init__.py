"""The gateways of runs: their events, attempts, inbox, landings and proofs."""
