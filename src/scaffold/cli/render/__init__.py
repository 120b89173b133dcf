"""Text for the terminal: tables, trees, progress, reports."""
