"""One setting: its name, purpose, parser, default, and the rules for what a repository's files may do to its value."""

from collections.abc import Callable

from msgspec import Struct

from scaffold.config.schema import parsers
from scaffold.config.schema.parsers import AUTO, OFF, SIZES, ConfigValue, Parser
from scaffold.llm.registry.model_name import parse_model

ONLY_YOURS = "only your own configuration may set it"
NO_ADDRESSES = "only your own configuration may give the address of a model"


class MergeResult(Struct, frozen=True):
    """The resulting value, and why it differs from the file's, if it does."""

    value: ConfigValue
    reason: str = ""


class MergeRule(Struct, frozen=True):
    """The rule for what a file may do to a setting."""

    allows: str
    """In words, for the documentation: a project may ..."""
    merge: Callable[[ConfigValue, ConfigValue], MergeResult]
    """From the value so far and the one in the file, which is not None, to the result."""


def _without_address(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    # Requests and credentials go only where the user wants them to: a project may name a model, not its address.
    models = wanted if isinstance(wanted, tuple) else (str(wanted),)
    named = all(each in {*SIZES, AUTO, OFF} or not parse_model(each).url for each in models)
    return MergeResult(wanted) if named else MergeResult(held, NO_ADDRESSES)


def _keep_subset(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    kept = tuple(entry for entry in value_entries(wanted) if entry in value_entries(held))
    lost = [entry for entry in value_entries(wanted) if entry not in kept]
    return MergeResult(kept, f"your own configuration does not have {', '.join(lost)}" if lost else "")


def _at_most(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    if held is None or _number_value(wanted) <= _number_value(held):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot raise it beyond {held}")


def _at_least(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    if _number_value(wanted) >= _number_value(held):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot lower it below {held}")


def value_entries(value: ConfigValue) -> tuple[str, ...]:
    """Return the entries of a list; empty if the value is no list."""
    return value if isinstance(value, tuple) else ()


def _number_value(value: ConfigValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


FREE = MergeRule("choose it", lambda _held, wanted: MergeResult(wanted))
NEVER = MergeRule("nothing", lambda held, _wanted: MergeResult(held, ONLY_YOURS))
NO_ADDRESS = MergeRule("choose it by name, not by address", _without_address)
ADD = MergeRule(
    "add to it", lambda held, wanted: MergeResult(tuple(dict.fromkeys((*value_entries(held), *value_entries(wanted)))))
)
SUBSET = MergeRule("leave some out", _keep_subset)
LOWER = MergeRule("lower it", _at_most)
RAISE = MergeRule("raise it", _at_least)
# A project may say how it is tested, but not that it is not.
NOT_OFF = MergeRule(
    "name a command", lambda held, wanted: MergeResult(held, ONLY_YOURS) if wanted == OFF else MergeResult(wanted)
)


def stricter(order: tuple[str, ...], *, default: str = "") -> MergeRule:
    """Return the rule for words in `order`, from loose to strict; `default` applies while the setting has no value."""

    def merge(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
        now = str(held or default)
        if order.index(str(wanted)) >= order.index(now):
            return MergeResult(wanted)
        return MergeResult(held, f"it is `{now}` already, and a project cannot loosen it")

    return MergeRule("make it stricter", merge)


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
    of_repository: bool = False
    """Whether the value is about one repository, so that it is written there; otherwise it is the user's."""

    @property
    def is_list(self) -> bool:
        """Whether the value may be a list."""
        return isinstance(self.default, tuple) or self.parse in {
            parsers.alternatives,
            parsers.role_models,
            parsers.notify,
        }

    @property
    def accumulates(self) -> bool:
        """Whether each layer adds to the list of earlier layers."""
        return self.local is ADD
