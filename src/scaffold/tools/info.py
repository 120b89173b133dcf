"""What is known of a file without showing it."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.arguments import object_schema
from scaffold.tools.files import PATH, READ_TIME_S, changed_at, kind_of, text_of
from scaffold.tools.passage import passage, pieces
from scaffold.tools.regular import opened, opened_folder
from scaffold.tools.text import Decoded
from scaffold.tools.workspace import Patience, Place, Workspace, failed, in_bounded_time, may_read


def file_info(workspace: Workspace, *, time_limit_s: float = READ_TIME_S) -> Tool:
    """Return the tool that describes a file, folder or link as one JSON object; links are not followed.

    Always `path`, `kind` (file, dir, link, other), `size_bytes`, `modified` (ISO, UTC), `mode` (octal). A file has
    `encoding` (null: binary, or not to be read) and `total_lines` (null: the same, or not counted in time), a folder
    `entries`, a link `target` and `leads_to`: a kind, `nothing`, or `outside`.
    """

    def work(args: Mapping[str, Any], patience: Patience) -> ToolOutput:
        """Look at the path itself, not at what it leads to."""
        place = _unfollowed(workspace, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        try:
            status = place.path.lstat()
        except (FileNotFoundError, ValueError):  # or a name that no file can have
            return failed(f"There is no {args['path']}; look with list_dir, or find it with search_files.")
        known: dict[str, Any] = {
            "path": _sayable(args["path"]),
            "kind": kind_of(status),
            "size_bytes": status.st_size,
            "modified": changed_at(status),
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        }
        known |= _more(place, patience, known["kind"])
        return ToolOutput(msgspec.json.encode(known).decode())

    return Tool(
        name="file_info",
        description="Describe a file, folder or link as JSON: kind, size, last change, mode, encoding, lines, target.",
        schema=object_schema({"path": PATH}),
        category="file_read",
        run=in_bounded_time(work, time_limit_s),
    )


def _unfollowed(workspace: Workspace, path: str) -> Place | Refusal:
    """Return `path` with links followed only up to its last name, or why it may not be touched."""
    name = PurePath(path).name
    if name in {"", ".."} or name.casefold() == ".git" or "\0" in path:
        return may_read(workspace, path)
    folder = may_read(workspace, os.path.dirname(path.rstrip("/")) or ".")  # noqa: PTH120 - a Path would drop `.` and `..`
    return folder if isinstance(folder, Refusal) else Place(folder.folder, folder.path / name)


def _more(place: Place, patience: Patience, kind: str) -> Mapping[str, Any]:
    match kind:
        case "file":
            return _of_file(place, patience)
        case "dir":
            with opened_folder(place.folder, place.path) as folder:
                return {"entries": len(os.listdir(folder))}  # noqa: PTH208 - of a descriptor
        case "link":
            return {"target": _sayable(str(place.path.readlink())), "leads_to": _led_to(place.folder, place.path)}
        case _:
            return {}


def _of_file(place: Place, patience: Patience) -> Mapping[str, Any]:
    text = text_of(place, place.path.name)
    if isinstance(text, Refusal):
        return {"encoding": None, "total_lines": None}
    if isinstance(text, Decoded):
        return {"encoding": text.encoding.name, "total_lines": passage(iter([text.text]), 1, 0, 0).total}
    with opened(place.folder, place.path, os.O_RDONLY) as fd:
        total = passage(pieces(fd, text, patience), 1, 0, 0).total
    return {"encoding": text.name, "total_lines": None if patience.is_over else total}


def _led_to(root: Path, link: Path) -> str:
    place = confine(root, str(link))
    if isinstance(place, Refusal):
        return "outside"
    return kind_of(place.lstat()) if place.exists() else "nothing"


def _sayable(name: str) -> str:
    """Return a name as JSON can hold it: bytes that are no text become escapes."""
    return name.encode(errors="backslashreplace").decode()
