"""Persistence in two databases: one for each repository, one for the user.

Owns all SQL, as named statements, and both schemas (`migrations/`, `user_migrations/`). Values of `core` enter and
leave: a gateway reads and writes the tables of one subject, and the caller owns the transaction, so that a change and
its event are stored together or not at all. `spending/` and `shared_throttle.py` are shared by processes through it.

Start with `database.py`, which lists the gateways of a repository, and `driver/connection.py`.
"""
