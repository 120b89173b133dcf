"""`memory`: what is remembered beyond a conversation, and documents that can be searched."""
