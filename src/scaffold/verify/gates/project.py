"""One project in a folder: its gates and its set-up."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.gates import Gate, RunnerKind

ProjectKind = Literal["go", "node", "rust", "python", "unknown"]
RequiredTools = Mapping[str, str]


class Project(Struct, frozen=True, kw_only=True):
    """The gates of a project, and how to prepare a checkout for them."""

    gates: tuple[Gate, ...] = ()
    setup: tuple[str, ...] = ()
    tools: RequiredTools = {}
    """The program that a gate requires, or `python -m MODULE`, by the gate's name."""
    scripts: Mapping[str, RunnerKind] = {}
    """The runner of each script in package.json, by its name."""
    sources: Mapping[str, str] = {}
    """The file of the project whose command a gate follows, by the gate's name."""
    notes: tuple[str, ...] = ()
