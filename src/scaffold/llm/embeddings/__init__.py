"""Models that turn texts into vectors: OpenAI's, and those of servers that speak its wire or Ollama's."""
