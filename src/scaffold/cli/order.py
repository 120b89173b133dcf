"""How a session of `ralph` is to work, and what of it is handed down to a subagent."""

import json
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.agent.crew import Limits
from scaffold.agent.modes import Mode
from scaffold.policy.gate import Rules
from scaffold.policy.sandbox import Sandbox


class Order(Struct, frozen=True, kw_only=True):
    """How a session is to work, whatever it is told to do."""

    cwd: Path
    home: Path
    rules: Rules
    max_turns: int
    """Requests between one thing said and the next."""
    budget_usd: float | None
    stream: bool
    own_prompt: str | None
    """What replaces the built-in base prompt."""
    mode: Mode | None = None
    """None for the one the conversation is in."""
    subagents: Limits = Limits()
    environment: tuple[str, ...] = ()
    """Names of variables that commands see besides the usual ones."""
    sandbox: Sandbox = Sandbox()


class Charge(Struct, frozen=True, kw_only=True):
    """What a session hands down to a subagent: how to work, and whose money to spend."""

    order: Order
    account: str | None
    """None without a limit."""

    def written(self) -> str:
        """Return it as JSON, for `read_charge`; plain ASCII, as names of folders need not be text."""
        return json.dumps(msgspec.to_builtins(self, enc_hook=str))


def read_charge(text: str) -> Charge:
    """Return what `Charge.written` wrote."""
    return msgspec.convert(json.loads(text), Charge, dec_hook=lambda kind, value: kind(value))
