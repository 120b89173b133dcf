"""The user's runs in a browser: pages, a JSON API, and live updates, for this machine by default.

`serve.py` listens, `guard.py` refuses what is not the user's, `access.py` knows links and sessions, `app.py` has the
routes of the pages and `api.py` those of the API; `user_runs.py` reads the stores, `deciding.py` changes them. What a
page shows of a run is drawn by `pages`, like the report.
"""
