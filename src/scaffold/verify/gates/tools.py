"""Whether the tools are there that detected gates need, in the very environment of the checks."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from scaffold.verify.gates.detection import Detection

BINARIES = "node_modules/.bin"
"""Where scripts of package.json look for programs before PATH."""


def with_tools(detection: Detection, top: Path, environ: Mapping[str, str]) -> Detection:
    """Return the detection without the gates whose tools are not there in the checkout `top`, and a note for each.

    Test gates stay, and those that the settings give: that they cannot be run is told as what it is, an error.
    """
    missing = {
        gate.name: detection.tools[gate.name]
        for gate in detection.gates
        if gate.kind != "test"
        and gate.name not in detection.given
        and gate.name in detection.tools
        and not _is_there(detection.tools[gate.name], (top / gate.folder, top), environ)
    }
    notes = tuple(f"{tool} is wanted but not installed: {name} is not checked" for name, tool in missing.items())
    kept = tuple(gate for gate in detection.gates if gate.name not in missing)
    return structs.replace(detection, gates=kept, notes=(*detection.notes, *notes))


def _is_there(tool: str, folders: tuple[Path, ...], environ: Mapping[str, str]) -> bool:
    if "/" in tool:
        return any(os.access(folder / tool, os.X_OK) for folder in folders)
    places = (environ.get("PATH", ""), *(str(folder / BINARIES) for folder in folders))
    return any(shutil.which(tool, path=place) for place in places)
