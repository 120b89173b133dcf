"""What is remembered, and documents: chunks, their words and vectors."""
