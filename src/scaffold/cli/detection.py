"""What `init` finds: what the repository is made of, and what this machine has to work on it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.gates import GateKind
from scaffold.verify.gates.detection import Detection, detect_in
from scaffold.verify.gates.project import ProjectKind

Gates = Mapping[Literal["setup"] | GateKind, str]

AGENT_PROGRAMS = ("claude", "codex")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


class Findings(Struct, frozen=True, kw_only=True):
    """What `init` found."""

    type: ProjectKind
    gates: Gates
    """Commands that prepare and check the project; a gate that was not found is left out."""
    agents: tuple[str, ...]
    """Agent programs on PATH."""
    keys: tuple[str, ...]
    """Names of variables that hold a provider's key; never their values."""


def detect(root: Path, environ: Mapping[str, str]) -> Findings:
    """Look at the files in `root` and at the environment."""
    detection = detect_in(root)
    return Findings(
        type=detection.kind,
        gates=_commands(detection),
        agents=tuple(name for name in AGENT_PROGRAMS if shutil.which(name, path=environ.get("PATH", ""))),
        keys=tuple(name for name in KEYS if environ.get(name)),
    )


def _commands(detection: Detection) -> Gates:
    """Return the commands by kind, to be run at the top; several of a kind one after another."""
    commands: dict[Literal["setup"] | GateKind, list[str]] = {"setup": list(detection.setup)} if detection.setup else {}
    for gate in detection.gates:
        there = f"(cd {gate.folder} && {gate.command})" if gate.folder else gate.command
        commands.setdefault(gate.kind, []).append(there)
    return {kind: " && ".join(several) for kind, several in commands.items()}
