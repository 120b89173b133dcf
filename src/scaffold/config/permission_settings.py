"""The permissions of agents by the settings: rules for tool calls, protected areas, the sandbox of commands."""

import os
from collections.abc import Sequence
from typing import cast

from scaffold.config.settings import PROJECT_FILES, Settings
from scaffold.core.run_settings import (
    ExtraProtectedAreas,
    NetworkMode,
    PermissionSettings,
    SandboxMode,
    SandboxSettings,
)
from scaffold.host.sandbox.level import LEVEL_CACHE, DetectedLevel, detect_level
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.rule.ruleset import RuleSet, parse_category, parse_decision
from scaffold.policy.rule.tool_rules import parse_rule


def permission_rules(
    settings: Settings, *, allow: Sequence[str] = (), allow_category: Sequence[str] = (), yolo: bool = False
) -> RuleSet:
    """Return the rules of the settings and of a command's flags; raise UsageError for an invalid flag."""
    own = permission_settings(settings, yolo=yolo)
    allowed = {parse_category(name): parse_decision("allow") for name in allow_category}
    return RuleSet(
        categories=dict(own.approvals) | allowed,
        allow=tuple(map(parse_rule, (*own.allow, *allow))),
        deny=tuple(parse_rule(rule, denies=True) for rule in own.deny),
        yolo=yolo,
        areas=ProtectedAreas.with_added(own.areas),
    )


def permission_settings(settings: Settings, *, yolo: bool) -> PermissionSettings:
    """Return the permissions of a run's agents."""
    return PermissionSettings(
        allow=settings.texts("permissions.allow"),
        deny=settings.texts("permissions.deny"),
        approvals={parse_category(name): parse_decision(rule) for name, rule in settings.approvals().items()},
        yolo=yolo,
        areas=ExtraProtectedAreas(
            globs=settings.texts("areas.globs"),
            words=settings.texts("areas.words"),
            types=settings.texts("areas.types"),
        ),
        inbox_wait_s=settings.number("inbox.wait_s"),
        notify=settings.texts("notify") or settings.text("notify") or "",
        quiet_hours=settings.text("quiet_hours") or "",
    )


def sandbox_settings(settings: Settings) -> SandboxSettings:
    """Return the user's settings for the sandbox of commands."""
    mode = settings.values["sandbox.mode"]
    # Who turns the sandbox off knows what that means; a file that came with the repository does not speak for the user.
    places = () if settings.trust is None else tuple(f"{settings.trust.folder.top / name}:" for name in PROJECT_FILES)
    return SandboxSettings(
        unconfined=mode.value == "off" and not mode.origin.startswith(places),
        mode=cast("SandboxMode", settings.text("sandbox.mode")),  # the parser checked both
        network=cast("NetworkMode", settings.text("sandbox.network")),
        hosts=settings.texts("sandbox.hosts"),
        memory_gb=settings.number("sandbox.memory_gb"),
        read=settings.texts("sandbox.read"),
    )


async def detect_sandbox_level() -> DetectedLevel:
    """Return the strongest sandbox level of this machine."""
    return await detect_level(os.environ, cache=user_dirs().cache / LEVEL_CACHE)
