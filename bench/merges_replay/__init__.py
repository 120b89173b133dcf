"""Merge commits of real histories, merged again and compared with what humans made of them."""
