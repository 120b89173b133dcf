"""The rule that "always" makes of a consent: for a kind of command, for one file, for one host."""

import re
from typing import assert_never
from urllib.parse import urlsplit

from scaffold.policy.judge import ShellJudge
from scaffold.policy.patterns import escaped
from scaffold.policy.rules import Rule, Wish
from scaffold.policy.shell.ground import Ground

_HOST = re.compile(r"[a-z0-9.-]+")


async def rule_for(wish: Wish, ground: Ground, shell: ShellJudge) -> Rule | None:
    """Return the rule that allows such calls from now on; None where exactly this one would be allowed again."""
    match wish.kind:
        case "command":
            pattern = await shell.proposal(wish.subject, ground)
        case "path":
            [pattern] = escaped(wish.paths) if len(wish.paths) == 1 else (None,)
        case "url":
            pattern = _host(wish.subject)
        case "text":
            return None
        case _:
            assert_never(wish.kind)
    return Rule(wish.tool, pattern) if pattern else None


def _host(url: str) -> str | None:
    """Return the host alone that a URL names without any disguise; None if it does not."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None
