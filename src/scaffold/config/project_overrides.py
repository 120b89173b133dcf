"""What a project's settings may do to the user's: tighten, never loosen, and never lead credentials elsewhere."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import get_args

from msgspec import Struct

from scaffold.config.file import SettingValue
from scaffold.config.schema import NETWORKS, OFF, SANDBOX_MODES, SIZES, Setting
from scaffold.core.gates import GateKind
from scaffold.core.run_settings import TIERS
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.rule.ruleset import CATEGORIES, DECISIONS, DEFAULT_DECISIONS

Values = Mapping[str, SettingValue]


class IgnoredConfig(Struct, frozen=True):
    """Configuration that does not count: a file, or one setting at a line of a file."""

    path: str
    """`FILE`, or `FILE:LINE`."""
    reason: str
    setting: str = ""


class MergeResult(Struct, frozen=True):
    """What becomes of a setting: the value that holds from now on, and why all or a part of what was asked is not."""

    value: Setting
    reason: str = ""


MergeRule = Callable[[Setting, Setting], MergeResult]
"""From what holds so far and what the project asks for to what becomes of it."""

ONLY_YOURS = "only your own configuration may set it"
NO_ADDRESSES = "only your own configuration may say where a model is to be found"


def merge_project_settings(values: Values, asked: Values) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    """Return the settings with those of a project's file, and what of the file does not count.

    The tier is looked at first: what else is asked for is measured by the one that holds then.
    """
    return _merged(values, asked, _project_rule)


def merge_local_settings(values: Values, asked: Values) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    """Return the settings with those of the user's file for one checkout, and what of the file does not count.

    The user agreed to each version of it, so it may loosen; but it lies where others can put files.
    """
    return _merged(values, asked, _local_rule)


def _merged(
    values: Values, asked: Values, rule_of: Callable[[str, Values], MergeRule]
) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    merged, ignored = dict(values), []
    for name, wanted in sorted(asked.items(), key=lambda item: item[0] != "tier"):
        if wanted.value is None:
            continue
        held = merged[name]
        verdict = rule_of(name, merged)(held.value, wanted.value)
        if verdict.reason:
            ignored.append(IgnoredConfig(wanted.origin, verdict.reason, name))
        if verdict.value != held.value:
            merged[name] = SettingValue(verdict.value, _origin(name, held, wanted))
    return merged, tuple(ignored)


def _origin(name: str, held: SettingValue, wanted: SettingValue) -> str:
    return f"{held.origin}, {wanted.origin}" if name in ADDED and held.value else wanted.origin


def _project_rule(name: str, values: Values) -> MergeRule:
    if name == "agents":
        return partial(_at_most, limit=_agents(values))
    if name.startswith("approvals."):
        return partial(_stricter, order=DECISIONS, default=_DEFAULTS[name])
    return PROJECT_RULES.get(name, _free)


def _local_rule(name: str, values: Values) -> MergeRule:  # noqa: ARG001 - as _project_rule
    return LOCAL_RULES.get(name, _free)


def _agents(values: Values) -> Setting:
    """Return how many agents would work without the project's word."""
    return values["agents"].value or values[f"tiers.{values['tier'].value}.agents"].value


def _free(held: Setting, wanted: Setting) -> MergeResult:  # noqa: ARG001 - a Rule
    return MergeResult(wanted)


def _never(held: Setting, wanted: Setting) -> MergeResult:  # noqa: ARG001 - a Rule
    return MergeResult(held, ONLY_YOURS)


def _without_address(held: Setting, wanted: Setting) -> MergeResult:
    """Let a project choose a model by its name alone: what is asked of it goes where the user wants."""
    known = wanted in SIZES or not parse_model(str(wanted)).url
    return MergeResult(wanted) if known else MergeResult(held, NO_ADDRESSES)


def _added(held: Setting, wanted: Setting) -> MergeResult:
    return MergeResult(tuple(dict.fromkeys((*_entries(held), *_entries(wanted)))))


def _subset(held: Setting, wanted: Setting) -> MergeResult:
    """Those of the wanted entries that the user has, too."""
    kept = tuple(entry for entry in _entries(wanted) if entry in _entries(held))
    lost = [entry for entry in _entries(wanted) if entry not in kept]
    return MergeResult(kept, f"your own configuration does not have {', '.join(lost)}" if lost else "")


def _at_most(held: Setting, wanted: Setting, *, limit: Setting = None) -> MergeResult:
    """Return the wanted number unless there is a lower one already; `limit` stands in for none."""
    most = limit if held is None else held
    if most is None or _number(wanted) <= _number(most):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot raise it beyond {most}")


def _at_least(held: Setting, wanted: Setting) -> MergeResult:
    """Return the wanted number unless there is a higher one already."""
    if _number(wanted) >= _number(held):
        return MergeResult(wanted)
    return MergeResult(held, f"a project cannot lower it below {held}")


def _not_off(held: Setting, wanted: Setting) -> MergeResult:
    """Let a project say how it is checked, but not that it is not."""
    return MergeResult(held, ONLY_YOURS) if wanted == OFF else MergeResult(wanted)


def _stricter(held: Setting, wanted: Setting, *, order: tuple[str, ...], default: str = "") -> MergeResult:
    """Return the wanted word unless it is looser than what holds; `order` goes from loose to strict."""
    now = str(held or default)
    if order.index(str(wanted)) >= order.index(now):
        return MergeResult(wanted)
    return MergeResult(held, f"it is `{now}` already, and a project cannot loosen it")


def _entries(setting: Setting) -> tuple[str, ...]:
    return setting if isinstance(setting, tuple) else ()


def _number(setting: Setting) -> float:
    return float(setting) if isinstance(setting, int | float) else 0.0


_DEFAULTS: Mapping[str, str] = {f"approvals.{category}": DEFAULT_DECISIONS[category] for category in CATEGORIES}
_MODELS = ("model", *(f"models.{size}" for size in (*SIZES, "embedding")))

ADDED = frozenset(
    {"permissions.allow", "permissions.deny", "areas.globs", "areas.words", "areas.types", "quality_gates.tags"}
)
"""Lists to which each layer adds; of others the later replaces the earlier."""

LOCAL_RULES: Mapping[str, MergeRule] = {
    **dict.fromkeys(_MODELS, _without_address),
    **dict.fromkeys(ADDED, _added),
    "environment": _never,
}

PROJECT_RULES: Mapping[str, MergeRule] = {
    **LOCAL_RULES,
    "permissions.allow": _never,
    "notify": _never,
    "max_workers_per_goal": _at_most,
    "supervision": _never,
    "replans": _at_most,
    "idle_s": _at_most,
    "sandbox.mode": partial(_stricter, order=SANDBOX_MODES),
    "sandbox.network": partial(_stricter, order=NETWORKS),
    "sandbox.hosts": _subset,
    "sandbox.memory_gb": _at_most,
    "budget_usd": _at_most,
    "max_subagents": _at_most,
    "subagent_timeout_s": _at_most,
    **{f"quality_gates.{kind}": _not_off for kind in get_args(GateKind)},
    "quality_gates.slots": _never,
    **{f"tiers.{tier.name}.{field}": _at_most for tier in TIERS for field in ("agents", "iterations", "timeout_min")},
    **{f"tiers.{tier.name}.threshold": _at_least for tier in TIERS},
}
"""The settings that a project may not set freely; it may choose models by name, the tier, and how long to wait."""
