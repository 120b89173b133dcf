"""Suggest the rule that the answer "always" adds: for a kind of command, one file, or one host."""

import re
from typing import assert_never
from urllib.parse import urlsplit

from scaffold.policy.permission.call_decision import ShellPolicy
from scaffold.policy.rule.patterns import escape_words
from scaffold.policy.rule.rules import PermissionRequest, Rule
from scaffold.policy.shell.decision_context import DecisionContext

_HOST = re.compile(r"[a-z0-9.-]+")


async def suggest_rule(request: PermissionRequest, context: DecisionContext, shell: ShellPolicy) -> Rule | None:
    """Return a rule that would allow this and similar calls; None if only exactly this call can be allowed."""
    match request.kind:
        case "command":
            pattern = await shell.suggest_pattern(request.subject, context)
        case "path":
            [pattern] = escape_words(request.paths) if len(request.paths) == 1 else (None,)
        case "url":
            pattern = _host(request.subject)
        case "text":
            return None
        case _:
            assert_never(request.kind)
    return Rule(request.tool, pattern) if pattern else None


def _host(url: str) -> str | None:
    """Return the host of a URL if it is plain ASCII, else None."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None
