"""`memory`: what is remembered beyond a conversation."""
