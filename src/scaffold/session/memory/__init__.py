"""What a session remembers beyond its conversation: memories, documents and vector indexes."""
