"""The terminal application `scaffold live`: a run on one screen, and what its user can do to it.

Start with `live_app.py`. What it shows is read by `run_feed.py` and becomes rows in `tab_rows.py`; `key_table.py` lists
the keys with the reason why one is disabled. What a key does to a run is a command of `scaffold`.
"""
