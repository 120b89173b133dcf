"""What users add to Scaffold: programs of their own that it talks to."""
