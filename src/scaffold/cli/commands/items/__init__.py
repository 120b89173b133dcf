"""`item`: tasks and epics outside of any plan."""
