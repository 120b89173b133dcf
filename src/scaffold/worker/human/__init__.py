"""What a human decides about an attempt: calls, files, questions, protected changes, its time; and work that waited."""
