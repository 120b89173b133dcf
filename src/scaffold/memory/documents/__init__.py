"""Documents: text read from files, by page where they have pages, and stored in pieces that can be searched."""
