"""Rules for settings in a repository's files: what such a file may do to a value that is set already."""

from collections.abc import Callable

from msgspec import Struct

from scaffold.config.schema.parsers import AUTO, OFF, SIZES, ConfigValue
from scaffold.llm.registry.model_name import parse_model

ONLY_YOURS = "only your own configuration may set it"
NO_ADDRESSES = "only your own configuration may give the address of a model"


class MergeResult(Struct, frozen=True):
    """The value that applies from now on, and why it differs from the file's, if it does."""

    value: ConfigValue
    reason: str = ""


class MergeRule(Struct, frozen=True):
    """What a file may do to a setting."""

    allows: str
    """In words, for the documentation: a project may ..."""
    merge: Callable[[ConfigValue, ConfigValue], MergeResult]
    """From the value so far and the one in the file, which is not None, to the result."""


def _replace_value(held: ConfigValue, wanted: ConfigValue) -> MergeResult:  # noqa: ARG001 - as every rule
    return MergeResult(wanted)


def _refuse_value(held: ConfigValue, wanted: ConfigValue) -> MergeResult:  # noqa: ARG001 - as every rule
    return MergeResult(held, ONLY_YOURS)


def _without_address(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    """Accept a model's name but not its address: requests and credentials go only where the user wants them to."""
    models = wanted if isinstance(wanted, tuple) else (str(wanted),)
    named = all(each in {*SIZES, AUTO, OFF} or not parse_model(each).url for each in models)
    return MergeResult(wanted) if named else MergeResult(held, NO_ADDRESSES)


def _add_entries(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    return MergeResult(tuple(dict.fromkeys((*_value_entries(held), *_value_entries(wanted)))))


def _keep_subset(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    kept = tuple(entry for entry in _value_entries(wanted) if entry in _value_entries(held))
    lost = [entry for entry in _value_entries(wanted) if entry not in kept]
    return MergeResult(kept, f"your own configuration does not have {', '.join(lost)}" if lost else "")


def _at_most(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    if held is None or _number_value(wanted) <= _number_value(held):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot raise it beyond {held}")


def _at_least(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    if _number_value(wanted) >= _number_value(held):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot lower it below {held}")


def _not_off(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
    # A project may say how it is tested, but not that it is not.
    return MergeResult(held, ONLY_YOURS) if wanted == OFF else MergeResult(wanted)


def stricter(order: tuple[str, ...], *, default: str = "") -> MergeRule:
    """Return the rule for words in `order`, from loose to strict; `default` applies while the setting has no value."""

    def merge(held: ConfigValue, wanted: ConfigValue) -> MergeResult:
        now = str(held or default)
        if order.index(str(wanted)) >= order.index(now):
            return MergeResult(wanted)
        return MergeResult(held, f"it is `{now}` already, and a project cannot loosen it")

    return MergeRule("make it stricter", merge)


FREE = MergeRule("choose it", _replace_value)
NEVER = MergeRule("nothing", _refuse_value)
NO_ADDRESS = MergeRule("choose it by name, not by address", _without_address)
ADD = MergeRule("add to it", _add_entries)
SUBSET = MergeRule("leave some out", _keep_subset)
LOWER = MergeRule("lower it", _at_most)
RAISE = MergeRule("raise it", _at_least)
NOT_OFF = MergeRule("name a command", _not_off)


def _value_entries(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _number_value(value: ConfigValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
