"""What is known from earlier work: learnings, memories, and how second reviewers did."""
