"""Output to a terminal: layout, styles, redrawing in place, the pager; plain text in a pipe."""
