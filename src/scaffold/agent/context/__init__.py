"""An agent's context: messages, attachments, compaction, summaries."""
