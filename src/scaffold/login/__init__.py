"""Logins by OAuth 2: at the provider of a subscription's models, and at MCP servers.

Owns the tokens (encrypted in the user's database), their keys, and their renewal, which is done once for all processes.
The answer of a browser enters; access tokens leave, and no other package sees a refresh token or a key.
Start with `stored_tokens.py`; `subscription.py` and `server_logins.py` are the two kinds of login.
"""
