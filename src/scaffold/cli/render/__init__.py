"""Text, JSON and HTML that commands print: status, reports, previews, inbox, live progress; no command logic."""
