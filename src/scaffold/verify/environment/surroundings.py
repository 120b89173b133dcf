"""The environment of checks: the same whatever the user's shell was like."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from scaffold.core.gates import CheckEnvironment
from scaffold.host.environment import MISLEADING
from scaffold.host.sandbox.confinement import Enclosure

TOP = "{top}"
DROPPED = (*MISLEADING, "NODE_PATH", "NODE_OPTIONS", "CONDA_PREFIX")
"""What would have a program load code from elsewhere, also where the user named it."""
STEADY = {"PYTHONHASHSEED": "0"}
"""What makes two runs of the same code alike: otherwise the order of a set decides a verdict."""


def check_environ(environment: CheckEnvironment | None, top: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of checks in the checkout at `top`, made of what children may inherit.

    Without an environment to stand on, that is all.
    """
    if environment is None:
        return dict(environ)
    kept = {name: value for name, value in environ.items() if name not in DROPPED}
    first = [_filled(folder, top) for folder in environment.path]
    own = {name: _filled(value, top) for name, value in environment.variables.items()}
    return kept | STEADY | own | {"PATH": os.pathsep.join([*first, kept.get("PATH", os.defpath)])}


def within(environment: CheckEnvironment | None, walls: Enclosure | None) -> Enclosure | None:
    """Return the walls with what checks read outside of the checkout shown."""
    if environment is None or walls is None:
        return walls
    shown = tuple(Path(folder).resolve() for folder in environment.shown)
    confinement = structs.replace(walls.confinement, shown=(*walls.confinement.shown, *shown))
    return structs.replace(walls, confinement=confinement)


def _filled(text: str, top: Path) -> str:
    return text.replace(TOP, str(top))
