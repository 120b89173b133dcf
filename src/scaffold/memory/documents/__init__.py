"""Documents: read from files, page by page where they have pages, and stored in pieces that can be searched."""
