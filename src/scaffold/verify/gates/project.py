"""What one project in a folder offers to judge it by."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.gates import Gate, Runner

ProjectKind = Literal["go", "node", "rust", "python", "unknown"]
Tools = Mapping[str, str]


class Project(Struct, frozen=True, kw_only=True):
    """The gates of a project, and how a checkout of it is prepared for them."""

    gates: tuple[Gate, ...] = ()
    setup: tuple[str, ...] = ()
    tools: Tools = {}
    """By a gate's name: the program it cannot do without, or `python -m MODULE`."""
    scripts: Mapping[str, Runner] = {}
    """By the name of a script in package.json: whose report it leaves."""
    notes: tuple[str, ...] = ()
