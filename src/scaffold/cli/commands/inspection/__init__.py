"""Commands that show a run and change nothing, apart from `baseline reset`."""
