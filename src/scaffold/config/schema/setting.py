"""One setting: its name, purpose, parser, default, and what a repository's files may do to the value."""

from msgspec import Struct

from scaffold.config.schema import parsers
from scaffold.config.schema.merge_rules import ADD, FREE, MergeRule
from scaffold.config.schema.parsers import ConfigValue, Parser


class Setting(Struct, frozen=True):
    """One setting."""

    name: str
    """Dotted, as the file nests it."""
    purpose: str
    parse: Parser
    default: ConfigValue = None
    """A tuple for a list; None if the setting has no value until it is set."""
    project: MergeRule = FREE
    """What the project's `.scaffold.yaml` may do."""
    local: MergeRule = FREE
    """What `.scaffold/config.local.yaml` may do. The user approved its content, but others can put files there."""

    @property
    def is_list(self) -> bool:
        """Whether the value may be a list."""
        return isinstance(self.default, tuple) or self.parse in {parsers.alternatives, parsers.role_models}

    @property
    def accumulates(self) -> bool:
        """Whether each layer adds to the list of the layers before."""
        return self.local is ADD
