"""Extensions."""
