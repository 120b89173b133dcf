"""The processes of a run: how they are started and ended, and what their exits mean."""
