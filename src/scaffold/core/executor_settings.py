"""Who works in a run: our own agents, or programs of others, and what is known of each."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class ProgramSpec(Struct, frozen=True, kw_only=True):
    """A coding agent of others: how it is started, and what it needs of the user's machine."""

    name: str
    """As it is chosen: `claude`, or `acp:CMD` for any program that speaks ACP."""
    command: tuple[str, ...]
    """The program and the arguments that each turn has, before those of its protocol."""
    protocol: Literal["claude", "codex", "acp", "pi"]
    env: tuple[str, ...] = ()
    """Names of the user's variables that it gets besides those of every command."""
    variables: Mapping[str, str] = {}
    """What is set for it: settings without which it would not ask."""
    keys: tuple[str, ...] = ()
    """Names of variables with API keys. It gets one only if `env` names it: else a subscription would not be used."""
    credentials: str = ""
    """The folder with its login, which it may write; `~` is the home. Empty: none."""
    home_variable: str = ""
    """The variable that names another folder instead; empty if there is none."""
    login_file: str = ""
    """The file in that folder that a login leaves; empty if none tells."""
    grants: tuple[str, ...] = ()
    """What in that folder lets it act without a question: the questions are ours. Names are hidden from it where the
    sandbox can; `FILE:KEY.KEY` is a setting in JSON, `*` any key, which must be empty, as the file has others."""
    status: tuple[str, ...] = ()
    """Arguments of its own command that exits with 0 if it is logged in; empty if it has none."""
    login: str = ""
    """What a user types to log in."""
    hosts: tuple[str, ...] = ()
    """What it has to reach: its provider."""
    minimum: str = ""
    """The oldest version that is known to work; empty if none is."""
    edit_mode: str = ""
    """ACP: the mode in which it asks before it changes something; empty if it has no modes."""
    read_mode: str = ""
    """ACP: the mode in which it changes nothing."""
    titles_commands: bool = False
    """ACP: it tells the command that it asks about in the title of the question alone, whole."""


NATIVE = "native"
"""The executor that is no program of others: our own agents."""


class ExecutorSettings(Struct, frozen=True, kw_only=True):
    """Who works in a run: `native`, which are our own agents, or a program."""

    default: str = NATIVE
    roles: Mapping[str, str] = {}
    """By role of an agent or of an action."""
    tiers: Mapping[str, str] = {}
    programs: Mapping[str, ProgramSpec] = {}
    """Those of the user's configuration, complete; others are the known ones."""
    versions: Mapping[str, str] = {}
    """Of the programs that this run uses, as each named its own when the run was started or resumed."""

    def chosen(self, role: str, tier: str) -> str:
        """Return the name of the executor for a role in a run of this tier."""
        return self.roles.get(role) or self.tiers.get(tier) or self.default

    def needs_model(self, tier: str) -> bool:
        """Return whether any agent of a run of this tier asks a model, and not a program."""
        return NATIVE in {self.chosen("", tier), *self.roles.values()}
