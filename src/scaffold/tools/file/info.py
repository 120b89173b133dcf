"""The tool that describes a file without showing its content."""

import os
import stat
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal, resolve_inside
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.near_paths import missing_file
from scaffold.tools.content.safe_open import open_file, open_folder
from scaffold.tools.content.text_encoding import Decoded
from scaffold.tools.file.line_reader import decode_chunks, read_range
from scaffold.tools.file.read_write import (
    MORE_FILE_TOOLS,
    PATH_SCHEMA,
    READ_TIMEOUT_S,
    decode_file,
    file_kind,
    format_mtime,
)
from scaffold.tools.workspace import (
    Deadline,
    ReadablePath,
    Workspace,
    failed_answer,
    resolve_readable,
    run_with_deadline,
)


def file_info(workspace: Workspace, *, time_limit_s: float = READ_TIMEOUT_S) -> Tool:
    """Return the tool that describes a file, folder or link as one JSON object; links are not followed.

    Always `path`, `kind` (file, dir, link, other), `size_bytes`, `modified` (ISO, UTC), `mode` (octal). A file has
    `encoding` (null: binary or unreadable) and `total_lines` (null: also if counting timed out), a folder `entries`,
    a link `target` and `leads_to`: a kind, `nothing`, or `outside`.
    """

    def work(args: Mapping[str, Any], deadline: Deadline) -> ToolOutput:
        """Describe the path itself without following a link."""
        readable = _resolve_unfollowed(workspace, args["path"])
        if isinstance(readable, Refusal):
            return failed_answer(readable.reason)
        try:
            status = readable.path.lstat()
        except (FileNotFoundError, ValueError):  # ValueError: an impossible name, e.g. with NUL
            return failed_answer(missing_file(readable.folder, args["path"]))
        known: dict[str, Any] = {
            "path": _json_safe(args["path"]),
            "kind": file_kind(status),
            "size_bytes": status.st_size,
            "modified": format_mtime(status),
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        }
        known |= _kind_details(readable, deadline, known["kind"])
        return ToolOutput(msgspec.json.encode(known).decode())

    return Tool(
        name="file_info",
        description="Describe a file, folder or link as JSON: kind, size, last change, mode, encoding, lines, target.",
        schema=object_schema({"path": PATH_SCHEMA}),
        category="file_read",
        group=MORE_FILE_TOOLS,
        run=run_with_deadline(work, time_limit_s),
    )


def _resolve_unfollowed(workspace: Workspace, path: str) -> ReadablePath | Refusal:
    # The last name is not resolved: the tool describes the link itself.
    name = PurePath(path).name
    if name in {"", ".."} or name.casefold() == ".git" or "\0" in path:
        return resolve_readable(workspace, path)
    folder = resolve_readable(workspace, os.path.dirname(path.rstrip("/")) or ".")  # noqa: PTH120 - a Path would drop `.` and `..`
    return folder if isinstance(folder, Refusal) else ReadablePath(folder.folder, folder.path / name)


def _kind_details(readable: ReadablePath, deadline: Deadline, kind: str) -> Mapping[str, Any]:
    match kind:
        case "file":
            return _of_file(readable, deadline)
        case "dir":
            with open_folder(readable.folder, readable.path) as folder:
                return {"entries": len(os.listdir(folder))}  # noqa: PTH208 - of a descriptor
        case "link":
            named = _json_safe(str(readable.path.readlink()))
            target = resolve_inside(readable.folder, str(readable.path))
            if isinstance(target, Refusal):
                return {"target": named, "leads_to": "outside"}
            return {"target": named, "leads_to": file_kind(target.lstat()) if target.exists() else "nothing"}
        case _:
            return {}


def _of_file(readable: ReadablePath, deadline: Deadline) -> Mapping[str, Any]:
    text = decode_file(readable, readable.path.name)
    if isinstance(text, Refusal):
        return {"encoding": None, "total_lines": None}
    if isinstance(text, Decoded):
        return {"encoding": text.encoding.name, "total_lines": read_range(iter([text.text]), 1, 0, 0).total}
    with open_file(readable.folder, readable.path, os.O_RDONLY) as fd:
        total = read_range(decode_chunks(fd, text, deadline), 1, 0, 0).total
    return {"encoding": text.name, "total_lines": None if deadline.expired else total}


def _json_safe(name: str) -> str:
    # A file name may hold bytes that no JSON text can.
    return name.encode(errors="backslashreplace").decode()
