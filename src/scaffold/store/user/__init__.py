"""The gateways of the user's own database: conversations, subagents, logins, trust, reviewers, throttles."""
