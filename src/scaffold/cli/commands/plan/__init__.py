"""`scaffold plan` and its subcommands."""
