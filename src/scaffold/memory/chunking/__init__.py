"""Split texts, Markdown and code into pieces that an embedding model can read."""
