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
from scaffold.tools.files import PATH, READABLE_BYTES, changed_at, kind_of
from scaffold.tools.regular import opened
from scaffold.tools.text import SNIFFED_BYTES, Encoding, lines_of, sniff
from scaffold.tools.workspace import Workspace, failed, in_a_thread


def file_info(workspace: Workspace) -> Tool:
    """Return the tool that describes a file, folder or link as one JSON object; links are not followed.

    Always `path`, `kind` (file, dir, link, other), `size_bytes`, `modified` (ISO, UTC), `mode` (octal). A file has
    `encoding` (null: binary) and `total_lines` (null: binary, or more than is read), a folder `entries`, a link
    `target` and `leads_to`: a kind, `nothing`, or `outside`.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        """Look at the path itself, not at what it leads to."""
        place = _unfollowed(workspace.root, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        try:
            status = place.lstat()
        except (FileNotFoundError, ValueError):  # or a name that no file can have
            return failed(f"There is no {args['path']}; look with list_dir, or find it with search_files.")
        known: dict[str, Any] = {
            "path": _sayable(args["path"]),
            "kind": kind_of(status),
            "size_bytes": status.st_size,
            "modified": changed_at(status),
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        }
        known |= _more(workspace.root, place, known["kind"])
        return ToolOutput(msgspec.json.encode(known).decode())

    return Tool(
        name="file_info",
        description="Describe a file, folder or link as JSON: kind, size, last change, mode, encoding, lines, target.",
        schema=object_schema({"path": PATH}),
        category="file_read",
        run=in_a_thread(work),
    )


def _unfollowed(root: Path, path: str) -> Path | Refusal:
    """Return `path` with links followed only up to its last name, or why it may not be touched."""
    name = PurePath(path).name
    if name in {"", ".."} or name.casefold() == ".git" or "\0" in path:
        return confine(root, path)
    folder = confine(root, os.path.dirname(path.rstrip("/")) or ".")  # noqa: PTH120 - a Path would drop `.` and `..`
    return folder if isinstance(folder, Refusal) else folder / name


def _more(root: Path, place: Path, kind: str) -> Mapping[str, Any]:
    match kind:
        case "file":
            return _of_file(root, place)
        case "dir":
            return {"entries": sum(1 for _ in place.iterdir())}
        case "link":
            return {"target": _sayable(str(place.readlink())), "leads_to": _led_to(root, place)}
        case _:
            return {}


def _of_file(root: Path, place: Path) -> Mapping[str, Any]:
    with opened(root, place, os.O_RDONLY) as fd, os.fdopen(os.dup(fd), "rb") as file:
        head = file.read(SNIFFED_BYTES)
        whole = os.fstat(fd).st_size <= SNIFFED_BYTES
        data = head + (b"" if whole else file.read(READABLE_BYTES + 1 - len(head)))
    encoding = sniff(head, whole=whole)
    return {"encoding": encoding.name if encoding else None, "total_lines": _count_lines(data, encoding)}


def _count_lines(data: bytes, encoding: Encoding | None) -> int | None:
    if encoding is None or len(data) > READABLE_BYTES:
        return None
    return len(lines_of(data[len(encoding.mark) :].decode(encoding.codec, errors="replace")))


def _led_to(root: Path, link: Path) -> str:
    place = confine(root, str(link))
    if isinstance(place, Refusal):
        return "outside"
    return kind_of(place.lstat()) if place.exists() else "nothing"


def _sayable(name: str) -> str:
    """Return a name as JSON can hold it: bytes that are no text become escapes."""
    return name.encode(errors="backslashreplace").decode()
