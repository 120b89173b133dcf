"""A PDF of an agent's workspace, opened as `read_file` opens files; what goes wrong becomes the tool's answer."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.core.tool import ToolOutput
from scaffold.memory.documents.pdf_reader import check_pdf
from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.near_paths import missing_file
from scaffold.tools.content.safe_open import open_file, unreadable_reason
from scaffold.tools.workspace import ReadablePath, Workspace, failed_answer, printable_name, resolve_readable


class OpenPdf(Struct, frozen=True):
    """An open file that begins as a PDF does, its path, and its path as the agent wrote it."""

    file: int
    path: Path
    shown: str


async def with_workspace_pdf(
    workspace: Workspace, path: str, work: Callable[[OpenPdf], Awaitable[ToolOutput]]
) -> ToolOutput:
    """Return what `work` answers for a PDF, or why it cannot be read."""
    readable = resolve_readable(workspace, path)
    if isinstance(readable, Refusal):
        return failed_answer(readable.reason)
    shown = printable_name(path)
    try:
        return await _with_open(readable, shown, work)
    except ScaffoldError as error:
        return failed_answer(error.in_full)
    except FileNotFoundError:
        return failed_answer(missing_file(readable.folder, path))
    except IsADirectoryError:
        return failed_answer(f"{shown} is a folder; use list_dir.")
    except OSError as error:
        return failed_answer(f"{shown} cannot be read ({error.strerror}); use another file.")


async def _with_open(
    readable: ReadablePath, shown: str, work: Callable[[OpenPdf], Awaitable[ToolOutput]]
) -> ToolOutput:
    with open_file(readable.folder, readable.path, os.O_RDONLY) as file:
        if problem := unreadable_reason(os.fstat(file), shown):
            return failed_answer(problem.reason)
        check_pdf(file, shown)
        return await work(OpenPdf(file, readable.path, shown))
