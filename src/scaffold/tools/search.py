"""Searching the files of a workspace, line by line."""

import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process import run
from scaffold.policy.paths import Refusal
from scaffold.tools import seeking
from scaffold.tools.arguments import object_schema
from scaffold.tools.ripgrep import preselected
from scaffold.tools.seeking import ENCODING_ERRORS, OutOfTime, Query, Search, found, packed
from scaffold.tools.workspace import Patience, Place, Workspace, failed, in_bounded_time, may_read

DEFAULT_MATCHES = 100
MOST_MATCHES = 1_000
MOST_CONTEXT = 20
TIME_LIMIT_S = 30.0
MOST_OPTIONAL = 3
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_GROUP = re.compile(r"\(\?")


def search_files(workspace: Workspace, *, time_limit_s: float = TIME_LIMIT_S) -> Tool:
    """Return the tool that finds lines: counts first, then `PATH` and `NUMBER: LINE` (context as `NUMBER- LINE`).

    It takes at most `time_limit_s`, and a pattern that may hold a process is searched for in one of its own.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        asked = _asked(workspace, args)
        if isinstance(asked, Refusal):
            return failed(asked.reason)
        place, query = asked
        files = await preselected(workspace, place.path, re.compile(query.pattern))
        absolute = place.folder != workspace.root
        search = Search(place.folder.resolve(), place.path, files, query, absolute)
        if _may_take_long(query.pattern):
            return await _found_apart(workspace, search, time_limit_s)
        return await in_bounded_time(lambda _, patience: _found_here(search, patience), time_limit_s)(args)

    return Tool(
        name="search_files",
        description=(
            "Find the lines of text files that match a regular expression (Python syntax). Skips .git, binary files "
            "and folders of installed packages; name such a folder in `path` to search it."
        ),
        schema=object_schema(
            {"pattern": {"type": "string", "description": "Regular expression, matched within a line."}},
            path={"type": "string", "description": "File or folder to search; default the whole workspace."},
            glob={"type": "string", "description": "Only files like this: `*.{py,md}`, or with folders `src/**/*.py`."},
            context_lines={"type": "integer", "minimum": 0, "description": "Lines around each match; default 0."},
            max_matches={"type": "integer", "minimum": 1, "description": f"Default {DEFAULT_MATCHES}."},
        ),
        category="file_read",
        run=work,
    )


def _asked(workspace: Workspace, args: Mapping[str, Any]) -> tuple[Place, Query] | Refusal:
    """Return where to search for what, or why it cannot be done."""
    path = args.get("path", ".")
    place = may_read(workspace, path)
    if isinstance(place, Refusal):
        return place
    try:
        place.path.stat()
    except FileNotFoundError:
        return Refusal(f"There is no {path}; leave `path` out to search the whole workspace.")
    except OSError as error:
        return Refusal(f"{path} cannot be searched ({error.strerror}); choose another `path`.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as of `[[:alpha:]]`, which means something else than it does elsewhere
            re.compile(args["pattern"])
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        return Refusal(f"`pattern` is no regular expression of Python's ({error}); escape what is meant literally.")
    return place, Query(
        args["pattern"],
        args.get("glob"),
        min(args.get("context_lines", 0), MOST_CONTEXT),
        min(args.get("max_matches", DEFAULT_MATCHES), MOST_MATCHES),
    )


def _may_take_long(pattern: str) -> bool:
    """Tell whether a line may keep `pattern` busy for ever: while it does, no other task of the process runs."""
    plain = _GROUP.sub("(", _ESCAPED.sub("", pattern))
    return any(mark in plain for mark in "*+{") or plain.count("?") > MOST_OPTIONAL


def _found_here(search: Search, patience: Patience) -> ToolOutput:
    try:
        return ToolOutput(found(search, patience))
    except OutOfTime:
        return _unfinished(patience.seconds)


def _unfinished(time_limit_s: float) -> ToolOutput:
    return failed(
        f"The search took more than {time_limit_s:g} s; narrow it with `path` or `glob`, and see whether "
        "`pattern` repeats what is repeated already, like (a+)+."
    )


async def _found_apart(workspace: Workspace, search: Search, time_limit_s: float) -> ToolOutput:
    finished = await run(
        [sys.executable, "-I", "-m", seeking.__name__],
        cwd=workspace.root,
        env=workspace.env,
        timeout_s=time_limit_s,
        stdin=packed(search),
        leash=True,
    )
    if finished.timed_out:
        return _unfinished(time_limit_s)
    if finished.exit_code != 0:
        reason = finished.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return failed(f"The search broke off ({' '.join(reason)}); try a simpler one.")
    return ToolOutput(finished.stdout.decode(errors=ENCODING_ERRORS))
