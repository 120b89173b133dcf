"""The Landlock sandbox: rules that a process sets for itself, and a broker for what they cannot express."""
