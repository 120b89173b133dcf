"""The agents of an attempt: the one that works, those that advise on it, their tools and their watchdog."""
