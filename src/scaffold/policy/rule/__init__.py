"""Rules that allow or deny tool calls: patterns, strictness, hosts."""
