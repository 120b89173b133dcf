"""Sessions of `ralph`: one agent with its conversation, tools, approvals and budget.

Options and a conversation enter; a reporter receives what happens, and the user's database keeps it. User interfaces
(one-shot calls, the REPL, editors) only show a session and pass on what the user types.
Start with `agent_session.py`; `current_conversation.py` is what a REPL holds, `slash_commands.py` what it executes.
"""
