"""The user's runs in a browser: pages, a JSON API, and live updates, for this machine by default.

`page_server.py` listens, `request_guard.py` refuses what is not the user's, `browser_access.py` knows links and
sessions. The routes of the pages are in `page_routes.py`, those of the API in `json_api.py`; `user_runs.py` reads the
stores, `deciding.py` changes them. What a page shows of a run is drawn by `pages`, like the report.
"""
