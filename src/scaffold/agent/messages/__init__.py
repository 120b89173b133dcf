"""Messages between agents: mailbox, tools, text, polling."""
