"""The memories of a session's agent."""

from scaffold.policy.secret.redaction import Redactor
from scaffold.session.memory.embedding import EmbedderSource
from scaffold.session.memory.lazy_memories import MemoryAccess
from scaffold.session.open_conversation import OpenConversation
from scaffold.session.options import SessionOptions


def memory_access(options: SessionOptions, conversation: OpenConversation, redactor: Redactor) -> MemoryAccess:
    """Return the access of a session's agent."""
    source = f"session:{conversation.id}"
    embedding = EmbedderSource(options.embedding, conversation.store, redactor)
    return MemoryAccess(
        cwd=options.cwd, store=conversation.store, redactor=redactor, source=source, embedding=embedding
    )
