"""What agents and their user remember: memories, documents, and indexes that agents make.

Texts enter after checks, without secrets, and are stored as chunks in both databases; they leave as data for models,
never as orders. Search works by words, and by vectors too where the extra `memory` is installed. What is forgotten is
gone from tables, index files, process memory and the database's log.

Start with `memories.py` and `hybrid.py`.
"""
