"""Settings: their schema, the layers of configuration, folder trust, and the settings of a run.

In: the user's file, the project's files if their folder is trusted, the environment, and flags. Out: `Settings`, and
the `RunSettings` that a run stores. Start with `settings.py` (layers); `schema/table.py` lists every setting, and
`run/effective_settings.py` makes a run's settings of them. Hooks, skills, roles and commands are found here too.
"""
