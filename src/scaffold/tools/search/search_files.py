"""The tool that searches the files of a workspace line by line."""

import re
import sys
import warnings
from collections.abc import Mapping
from itertools import islice
from typing import Any

from scaffold.core.printable_text import utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.near_paths import files_below
from scaffold.tools.search import grep_process
from scaffold.tools.search.grep_process import (
    ENCODING_ERRORS,
    SearchQuery,
    SearchRequest,
    SearchTimeout,
    encode_search,
    matches_glob,
    run_search,
)
from scaffold.tools.search.ripgrep import candidate_files
from scaffold.tools.workspace import (
    Deadline,
    ReadablePath,
    Workspace,
    failed_answer,
    printable_name,
    resolve_readable,
    run_with_deadline,
)

MAX_SHOWN = 300
FIND_LIMIT_S = 30.0
DEFAULT_MATCHES = 100
MAX_MATCHES = 1_000
MAX_CONTEXT = 20
TIME_LIMIT_S = 30.0
MAX_OPTIONAL = 3
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_GROUP = re.compile(r"\(\?")


def search_files(workspace: Workspace, *, time_limit_s: float = TIME_LIMIT_S) -> Tool:
    """Return the tool that finds lines: counts first, then `PATH` and `NUMBER: LINE` (context as `NUMBER- LINE`).

    A search takes at most `time_limit_s`; a pattern that may backtrack badly runs in a separate process.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        request = _parse_request(workspace, args)
        if isinstance(request, Refusal):
            return failed_answer(request.reason)
        readable, query = request
        files = await candidate_files(workspace, readable.path, re.compile(query.pattern))
        absolute = readable.folder != workspace.root
        search = SearchRequest(readable.folder.resolve(), readable.path, files, query, absolute)
        # `re` holds the GIL while it backtracks, so no other task would run.
        # The question mark that opens a group, as in `(?:`, does not repeat anything.
        plain = _GROUP.sub("(", _ESCAPED.sub("", query.pattern))
        if any(mark in plain for mark in "*+{") or plain.count("?") > MAX_OPTIONAL:
            return await _search_in_process(workspace, search, time_limit_s)
        return await run_with_deadline(lambda _, deadline: _search_in_thread(search, deadline), time_limit_s)(args)

    return Tool(
        name="search_files",
        description=(
            "Find lines of text files that match a regular expression (Python syntax). Skips what glob skips, and "
            "binary files."
        ),
        schema=object_schema(
            {"pattern": {"type": "string", "description": "Regular expression, matched within each line."}},
            path={"type": "string", "description": "File or folder to search; default the whole workspace."},
            glob={"type": "string", "description": "Only matching files: `*.{py,md}`, or with folders `src/**/*.py`."},
            context_lines={
                "type": "integer",
                "minimum": 0,
                "description": "Context lines around each match; default 0.",
            },
            max_matches={"type": "integer", "minimum": 1, "description": f"Default {DEFAULT_MATCHES}."},
        ),
        category="file_read",
        run=work,
    )


def _parse_request(workspace: Workspace, args: Mapping[str, Any]) -> tuple[ReadablePath, SearchQuery] | Refusal:
    path = args.get("path", ".")
    readable = resolve_readable(workspace, path)
    if isinstance(readable, Refusal):
        return readable
    try:
        readable.path.stat()
    except FileNotFoundError:
        return Refusal(f"There is no {path}; leave `path` out to search the whole workspace.")
    except OSError as error:
        return Refusal(f"{path} cannot be searched ({error.strerror}); choose another `path`.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # refuse e.g. `[[:alpha:]]`, which Python reads differently from grep
            re.compile(args["pattern"])
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        return Refusal(f"`pattern` is not a valid Python regular expression ({error}); escape literal characters.")
    return readable, SearchQuery(
        args["pattern"],
        args.get("glob"),
        min(args.get("context_lines", 0), MAX_CONTEXT),
        min(args.get("max_matches", DEFAULT_MATCHES), MAX_MATCHES),
    )


def _search_in_thread(search: SearchRequest, deadline: Deadline) -> ToolOutput:
    try:
        return ToolOutput(run_search(search, deadline))
    except SearchTimeout:
        return _timeout_answer(deadline.seconds)


def _timeout_answer(time_limit_s: float) -> ToolOutput:
    return failed_answer(
        f"The search took more than {time_limit_s:g} s; narrow it with `path` or `glob`, and avoid nested "
        "repetition in `pattern`, like (a+)+."
    )


async def _search_in_process(workspace: Workspace, search: SearchRequest, time_limit_s: float) -> ToolOutput:
    finished = await run_command(
        [sys.executable, "-I", "-m", grep_process.__name__],
        cwd=workspace.root,
        env=workspace.own_env,
        timeout_s=time_limit_s,
        stdin=encode_search(search),
        containment=Containment(),
    )
    if finished.timed_out:
        return _timeout_answer(time_limit_s)
    if finished.exit_code != 0:
        reason = finished.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return failed_answer(f"The search failed ({' '.join(reason)}); try a simpler pattern.")
    return ToolOutput(finished.stdout.decode(errors=ENCODING_ERRORS))


def find_files(workspace: Workspace, *, time_limit_s: float = FIND_LIMIT_S) -> Tool:
    """Return the tool that lists files whose path matches a glob: their number first, then one path a line."""

    def work(args: Mapping[str, Any], deadline: Deadline) -> ToolOutput:
        """Return the paths that match, or why there are none."""
        readable = resolve_readable(workspace, args.get("path", "."))
        if isinstance(readable, Refusal):
            return failed_answer(readable.reason)
        if not readable.path.exists():
            return failed_answer(f"There is no {args['path']}; leave `path` out to look everywhere.")
        found = []
        for file in files_below(readable.path):
            if deadline.expired:
                return failed_answer(f"It took more than {deadline.seconds:g} s; look below a folder with `path`.")
            path = file.relative_to(readable.folder.resolve()).as_posix()
            if matches_glob(path, args["pattern"]):
                found.append(str(file) if readable.folder != workspace.root else path)
        shown = [printable_name(utf8_safe(path)) for path in islice(found, MAX_SHOWN)]
        more = [f"... {len(found) - MAX_SHOWN} more; narrow the pattern"] if len(found) > MAX_SHOWN else []
        return ToolOutput("\n".join([f"{len(found)} found", *shown, *more]))

    return Tool(
        name="glob",
        description="Find files by name. Skips .git and folders of installed packages, unless given as `path`.",
        schema=object_schema(
            {"pattern": {"type": "string", "description": "`*_test.go` in any folder, or `src/**/*.{ts,tsx}`."}},
            path={"type": "string", "description": "Folder to look below; default the whole workspace."},
        ),
        category="file_read",
        run=run_with_deadline(work, time_limit_s),
    )
