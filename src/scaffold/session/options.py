"""How a session of `ralph` is to work, and what of it is handed down to a subagent."""

import json
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.agent.modes import Mode
from scaffold.agent.subagents.pool import SubagentLimits
from scaffold.core.run_settings import SandboxSettings
from scaffold.policy.rule.ruleset import RuleSet


class SessionOptions(Struct, frozen=True, kw_only=True):
    """How a session is to work, whatever it is told to do."""

    cwd: Path
    home: Path
    rules: RuleSet
    max_turns: int
    """Requests between one thing said and the next."""
    budget_usd: float | None
    stream: bool
    system_prompt: str | None
    """What replaces the built-in base prompt."""
    mode: Mode | None = None
    """None for the one the conversation is in."""
    subagents: SubagentLimits = SubagentLimits()
    environment: tuple[str, ...] = ()
    """Names of variables that commands see besides the usual ones."""
    sandbox: SandboxSettings = SandboxSettings()


class SubagentOptions(Struct, frozen=True, kw_only=True):
    """What a session hands down to a subagent: how to work, and whose money to spend."""

    order: SessionOptions
    account: str | None
    """None without a limit."""

    def written(self) -> str:
        """Return it as JSON, for `read_subagent_options`; plain ASCII, as names of folders need not be text."""
        return json.dumps(msgspec.to_builtins(self, enc_hook=str))


def read_subagent_options(text: str) -> SubagentOptions:
    """Return what `SubagentOptions.written` wrote."""
    return msgspec.convert(json.loads(text), SubagentOptions, dec_hook=lambda kind, value: kind(value))
