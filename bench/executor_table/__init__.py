"""The table of what programs of others do: docs/executors.md."""
