"""One project in a folder: its gates and its set-up, each with the file and line that says so."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.proof.gates import Gate, RunnerKind

ProjectKind = Literal["go", "node", "rust", "python", "unknown"]
RequiredTools = Mapping[str, str]


class Reason(Struct, frozen=True):
    """The file and line which show that a gate or a set-up command is the project's."""

    path: str
    """Relative to the repository's top."""
    says: str
    """What the file does, to follow its name: `configures ruff`, or "runs `ruff check src`"."""
    line: int | None = None
    """From 1; None for the file as a whole."""

    @property
    def text(self) -> str:
        """The reason in one line, such as `tox.ini:7 runs pytest`."""
        return f"{self.path}{'' if self.line is None else f':{self.line}'} {self.says}"


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
    reasons: Mapping[str, Reason] = {}
    """The reason for a gate, by its name, or for a set-up command, by its text."""
    notes: tuple[str, ...] = ()
