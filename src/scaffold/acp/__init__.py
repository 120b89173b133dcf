"""`ralph` as an agent of editors, by the Agent Client Protocol.

Prompts and answers of an editor's user enter, updates leave. `agent.py` implements the protocol's methods and owns the
sessions; `editor_session.py` is one conversation with its turns; the other modules translate between our values and
the protocol's. Start with `agent.py`.
"""
