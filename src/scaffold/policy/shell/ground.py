"""What a decision about a shell command rests on besides the command."""

from msgspec import Struct

from scaffold.policy.rules import Rule
from scaffold.policy.shell.places import Place


class Ground(Struct, frozen=True, kw_only=True):
    """Where it would run, and what was decided beforehand."""

    place: Place
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    settings: frozenset[str] = frozenset()
    """Names of the repository's own settings as `git config --list` writes them, and `hook.NAME` for its hooks."""
    reading_allowed: bool = True
    """Whether what is known to only read needs no rule."""
