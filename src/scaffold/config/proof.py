"""What a run is to keep of the settings by which work is proven: gates, critic, drafter, set-up."""

from typing import get_args

from msgspec import structs

from scaffold.config.schema import AUTO, OFF
from scaffold.config.settings import Settings
from scaffold.core.gates import Gate, GateKind, TaggedTests
from scaffold.core.run_settings import (
    EnvironmentSettings,
    ExtraProtectedAreas,
    GateSettings,
    PlanningSettings,
    RunSettings,
)


def with_tier(run: RunSettings, settings: Settings) -> RunSettings:
    """Return the run's settings with the tier of `settings`, and with the agents that this tier has judge work."""
    tier = settings.tier()
    return structs.replace(run, tier=tier, planning=with_judges(run.planning, threshold=tier.threshold))


def with_judges(planning: PlanningSettings, *, threshold: int) -> PlanningSettings:
    """Return the settings with a drafter and a critic if there are a planner and a threshold, otherwise without."""
    judged = planning.planner and threshold > 0
    return structs.replace(planning, drafter=judged, critic=judged)


def gate_settings(settings: Settings) -> GateSettings:
    """Return the gates work is held against."""
    kinds = {kind: settings.text(f"quality_gates.{kind}") for kind in get_args(GateKind)}
    given = {kind: command for kind, command in kinds.items() if command not in {None, AUTO, OFF}}
    return GateSettings(
        enabled=any(command != OFF for command in kinds.values()),
        given=tuple(Gate(kind=kind, command=str(command)) for kind, command in given.items()),
        off=tuple(kind for kind, command in kinds.items() if command == OFF),
        timeout_s=settings.number("quality_gates.timeout_s"),
        tagged=tuple(map(_tagged, settings.texts("quality_gates.tags"))),
        slots=int(settings.number("quality_gates.slots")),
    )


def environment_settings(settings: Settings, *, trusted: bool) -> EnvironmentSettings:
    """Return what commands and checks run in."""
    setup = settings.texts("setup")
    return EnvironmentSettings(
        variables=settings.texts("environment"),
        setup=None if not setup else () if setup == (OFF,) else setup,
        services=settings.texts("services"),
        trusted=trusted,
    )


def refresh_gate_settings(began: RunSettings, settings: Settings, *, trusted: bool) -> RunSettings:
    """Return what a run without a baseline goes on with: its user may have mended what a baseline is made with.

    A run that was trusted once only keeps what it began with.
    """
    if began.environment.trusted and not trusted:
        return began
    found = environment_settings(settings, trusted=trusted)
    environment = structs.replace(found, variables=began.environment.variables)
    return structs.replace(began, gates=gate_settings(settings), environment=environment)


def _tagged(line: str) -> TaggedTests:
    path, *tags = line.split()
    return TaggedTests(path=path, tags=tuple(tag.removeprefix("@") for tag in tags))


def added_areas(settings: Settings) -> ExtraProtectedAreas:
    """Return the protected areas that the settings add to those there always are."""
    return ExtraProtectedAreas(
        globs=settings.texts("areas.globs"), words=settings.texts("areas.words"), types=settings.texts("areas.types")
    )
