"""The gateways of what is remembered and of documents: chunks, their words and vectors; in both databases."""
