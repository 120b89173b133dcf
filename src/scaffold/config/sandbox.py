"""The sandbox a user configured, and the level this machine can give."""

import os
from typing import cast

from scaffold.config.settings import Settings
from scaffold.core.run_settings import NetworkMode, SandboxMode, SandboxSettings
from scaffold.host.sandbox.level import DetectedLevel, detect_level
from scaffold.host.user_dirs import user_dirs

LEVEL_CACHE = "sandbox.json"
"""In the user's cache: what this machine can give."""


def sandbox_settings(settings: Settings) -> SandboxSettings:
    """Return what the user wants commands to be held to."""
    return SandboxSettings(
        mode=cast("SandboxMode", settings.text("sandbox.mode")),  # checked where it was set
        network=cast("NetworkMode", settings.text("sandbox.network")),
        hosts=settings.texts("sandbox.hosts"),
        memory_gb=settings.number("sandbox.memory_gb"),
    )


async def detect_sandbox_level() -> DetectedLevel:
    """Return what this machine can give."""
    return await detect_level(os.environ, cache=user_dirs(os.environ).cache / LEVEL_CACHE)
