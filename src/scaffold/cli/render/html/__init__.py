"""The report of a run as one HTML page, which loads nothing and runs nothing; `page.py` puts its sections together."""
