"""The contents of files: encodings, lines and edits, safe access, and what a conversation has seen of them."""
