"""The inputs of a decision about a shell command, other than the command."""

from msgspec import Struct

from scaffold.policy.rule.tool_rules import Rule
from scaffold.policy.shell.workspace_paths import WorkspacePaths


class DecisionContext(Struct, frozen=True, kw_only=True):
    """Where a command would run, the user's rules, and the repository's settings."""

    workspace: WorkspacePaths
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    settings: frozenset[str] = frozenset()
    """Names of the repository's own settings as in `git config --list`, and `hook.NAME` for each hook."""
    reading_allowed: bool = True
    """Whether read-only commands may run without a rule."""
