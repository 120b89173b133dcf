"""Check that the tools of detected gates are installed in the environment of the checks."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from scaffold.verify.gates.detection import DetectedGates

BINARIES = "node_modules/.bin"
"""Scripts of package.json search this folder before PATH."""


def drop_unavailable_gates(detection: DetectedGates, top: Path, environ: Mapping[str, str]) -> DetectedGates:
    """Return the detection without the gates whose tools are missing in the checkout `top`, with a note for each.

    Test gates and gates from the settings stay: a missing tool is an error there.
    """
    missing = {
        gate.name: detection.tools[gate.name]
        for gate in detection.gates
        if gate.kind != "test"
        and gate.name not in detection.given
        and gate.name in detection.tools
        and not _is_installed(detection.tools[gate.name], (top / gate.folder, top), environ)
    }
    notes = tuple(f"{tool} is not installed, so {name} is not checked" for name, tool in missing.items())
    kept = tuple(gate for gate in detection.gates if gate.name not in missing)
    return structs.replace(detection, gates=kept, notes=(*detection.notes, *notes))


def _is_installed(tool: str, folders: tuple[Path, ...], environ: Mapping[str, str]) -> bool:
    if "/" in tool:
        return any(os.access(folder / tool, os.X_OK) for folder in folders)
    search_paths = (environ.get("PATH", ""), *(str(folder / BINARIES) for folder in folders))
    return any(shutil.which(tool, path=path) for path in search_paths)
