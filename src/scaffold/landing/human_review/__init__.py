"""A human approves each change before it lands: what is asked, what an answer holds for, what is shown."""
