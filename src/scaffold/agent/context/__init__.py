"""What a model is shown of a conversation: its messages, their size, and the summary of those that were dropped."""
