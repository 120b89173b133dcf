"""Decide what agents may access and run: tool calls, shell commands, paths, hosts, secrets, sandboxes.

In: a tool call, the user's rules, and a view of the disk. Out: allow, ask or deny with the reason; a redacted text;
the profile of a sandbox. Decisions are pure functions. Start with `permission/approval_gate.py`, which stands before
each tool, and `permission/call_decision.py`; shell commands are decided in `shell/command_decision.py`.
"""
