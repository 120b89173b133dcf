"""What a run is to keep of the settings by which work is proven: gates, critic, drafter, set-up."""

from typing import TypedDict, get_args

from msgspec import structs

from scaffold.config.schema import AUTO, OFF, Tier
from scaffold.config.settings import Settings
from scaffold.core.gates import Gate, GateKind, TaggedTests
from scaffold.core.model import ExtraProtectedAreas, RunSettings


class GateSettings(TypedDict):
    """What a baseline is made with: fields of `core.model.RunSettings`, as in `ReviewSettings`."""

    gates: bool
    given_gates: tuple[Gate, ...]
    gates_off: tuple[str, ...]
    gate_timeout_s: float
    tagged: tuple[TaggedTests, ...]
    gate_slots: int
    setup: tuple[str, ...] | None
    services: tuple[str, ...]


class ReviewSettings(TypedDict):
    """The fields of `core.model.RunSettings` of the same names."""

    drafter: bool
    critic: bool
    threshold: int
    areas: ExtraProtectedAreas


def review_settings(settings: Settings, tier: Tier, *, planner: bool) -> ReviewSettings:
    """Return who judges work; nobody drafts or criticises where nobody plans, or where the tier has no threshold."""
    thinks = planner and tier.threshold > 0
    return ReviewSettings(drafter=thinks, critic=thinks, threshold=tier.threshold, areas=added_areas(settings))


def gate_settings(settings: Settings) -> GateSettings:
    """Return the gates work is held against, and what the environment of checks is made of."""
    kinds = {kind: settings.text(f"quality_gates.{kind}") for kind in get_args(GateKind)}
    given = {kind: command for kind, command in kinds.items() if command not in {None, AUTO, OFF}}
    setup = settings.texts("setup")
    return GateSettings(
        gates=any(command != OFF for command in kinds.values()),
        given_gates=tuple(Gate(kind=kind, command=str(command)) for kind, command in given.items()),
        gates_off=tuple(kind for kind, command in kinds.items() if command == OFF),
        gate_timeout_s=settings.number("quality_gates.timeout_s"),
        tagged=tuple(map(_tagged, settings.texts("quality_gates.tags"))),
        gate_slots=int(settings.number("quality_gates.slots")),
        setup=None if not setup else () if setup == (OFF,) else setup,
        services=settings.texts("services"),
    )


def refresh_gate_settings(began: RunSettings, settings: Settings, *, trusted: bool) -> RunSettings:
    """Return what a run without a baseline goes on with: its user may have mended what a baseline is made with.

    A run that was trusted once only keeps what it began with.
    """
    if began.trusted and not trusted:
        return began
    return structs.replace(began, **gate_settings(settings), trusted=trusted)


def _tagged(line: str) -> TaggedTests:
    path, *tags = line.split()
    return TaggedTests(path=path, tags=tuple(tag.removeprefix("@") for tag in tags))


def tier_overrides(settings: Settings, *, planner: bool) -> dict[str, object]:
    """Return what another tier changes in the settings of a run that has begun; who plans in it stays as it is."""
    tier = settings.tier()
    judged = review_settings(settings, tier, planner=planner)
    return {
        "tier": tier.name,
        "agents": tier.agents,
        "iterations": tier.iterations,
        "attempt_timeout_s": tier.timeout_s,
        "drafter": judged["drafter"],
        "critic": judged["critic"],
        "threshold": judged["threshold"],
    }


def added_areas(settings: Settings) -> ExtraProtectedAreas:
    """Return the protected areas that the settings add to those there always are."""
    return ExtraProtectedAreas(
        globs=settings.texts("areas.globs"), words=settings.texts("areas.words"), types=settings.texts("areas.types")
    )
