"""`ralph` as an agent of editors, by the Agent Client Protocol."""
