"""The tool that applies a patch to several files, in the form that GPT models are trained on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import FilePatch, parse_patch
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.line_edits import LineEdit
from scaffold.tools.content.patch_sections import apply_sections
from scaffold.tools.content.safe_open import FileContent, hard_link_note, read_whole, remove_file, replace_file
from scaffold.tools.content.seen_files import whole_content
from scaffold.tools.content.text_encoding import split_lines
from scaffold.tools.file.edit_lines import change_report, changed_content
from scaffold.tools.file.read_write import MAX_READ_BYTES, content_before, in_the_manner_of
from scaffold.tools.workspace import Workspace, failed_answer, resolve_writable, run_in_thread

WRITING_TOOLS = frozenset({"write_file", "append_file", "edit", "apply_delta"})
"""The tools that write the one file at their `path`."""
COMPARED_FILES = 50
"""Of a patch."""


class PlannedFile(Struct, frozen=True, kw_only=True):
    """What becomes of one file. The caller has checked that an agent may write it."""

    path: Path
    """Absolute, free of symlinks and inside the workspace."""
    shown: str
    """The path as the model wrote it."""
    before: FileContent | None
    """The whole file as it is now; None if there is none."""
    after: bytes | None
    """Its new content; None to delete it."""
    mode: int | None = None
    """Its permission bits; None: as they are, or of a new file by the umask."""


DESCRIPTION = """\
Change several text files at once: all or none. `input` is a patch:
*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
     name = read()
-    print("Hi")
+    print("Hello")
*** Add File: notes.txt
+first line
*** Delete File: old.txt
*** End Patch
`*** Move to:` is optional. In an updated file each line begins with a space (it stays), `-` or `+`; give about three \
lines around a change. They must occur once in the file: where they do not, `@@` and a whole line before them, such as \
that of a class or function, says which are meant; repeat it for nested ones. `*** End of File` after the last lines \
of a file. Paths are relative."""


class _PatchedFile(Struct, frozen=True, kw_only=True):
    """What a patch makes of one file, checked and not yet written."""

    planned: tuple[PlannedFile, ...]
    """The file; of one that is moved, the new and the old one."""
    report: str
    edits: Sequence[LineEdit] | None = None
    """Of an updated file."""


def apply_patch(workspace: Workspace) -> Tool:
    """Return the tool that adds, updates, moves and deletes text files by a patch: all of it or nothing.

    What is updated keeps its mode, encoding, line endings and a missing final newline.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        patched = _patched_files(workspace, args["input"])
        if isinstance(patched, Refusal):
            return failed_answer(f"{patched.reason}\nNothing was changed.")
        if refusal := change_files(workspace.root, [each for file in patched for each in file.planned]):
            return failed_answer(refusal.reason)
        for each, edits in ((each, file.edits) for file in patched for each in file.planned):
            if each.after is None:
                workspace.seen.forget(each.path)
            elif edits is None:
                workspace.seen.record(each.path, whole_content(each.after))
            else:
                workspace.seen.record_edits(each.path, whole_content(each.after), edits)
        return ToolOutput("\n".join(file.report for file in patched))

    return Tool(
        name="apply_patch",
        description=DESCRIPTION,
        schema=object_schema({"input": {"type": "string", "description": "The whole patch."}}),
        category="file_write",
        run=run_in_thread(work),
        for_trained_models=True,
    )


def _patched_files(workspace: Workspace, text: str) -> tuple[_PatchedFile, ...] | Refusal:
    # Everything that is wrong is reported at once, so that one more call can be enough.
    files = parse_patch(text)
    if isinstance(files, Refusal):
        return files
    results = [_plan_file(workspace, file) for file in files]
    if problems := [result.reason for result in results if isinstance(result, Refusal)]:
        return Refusal("\n\n".join(problems))
    patched = tuple(result for result in results if isinstance(result, _PatchedFile))
    paths = [each.path for file in patched for each in file.planned]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        shown = twice.relative_to(workspace.root.resolve())
        return Refusal(f"{shown} is in the patch twice; make all its changes in one part, with several `@@` sections.")
    return patched


def _plan_file(workspace: Workspace, file: FilePatch) -> _PatchedFile | Refusal:
    target = resolve_writable(workspace, file.path)
    if isinstance(target, Refusal):
        return target
    match file.kind:
        case "add":
            return _plan_addition(workspace, target, file)
        case "update":
            return _plan_update(workspace, target, file)
        case "delete":
            return _plan_deletion(workspace, target, file)


def _plan_addition(workspace: Workspace, target: Path, file: FilePatch) -> _PatchedFile | Refusal:
    before = content_before(workspace, target, file.path)
    if isinstance(before, Refusal):
        return before
    if target.is_dir():
        return Refusal(f"{file.path} is a folder; name a file in it.")
    replacement = in_the_manner_of(before, file.content, file.path)
    if isinstance(replacement, Refusal):
        return replacement
    text, data, _ = replacement
    planned = PlannedFile(path=target, shown=file.path, before=before, after=data)
    lines = count_of(len(split_lines(text)), "line")
    report = f"{file.path} {'replaced' if before else 'created'}: {lines}.{hard_link_note(before)}"
    return _PatchedFile(planned=(planned,), report=report)


def _plan_update(workspace: Workspace, target: Path, file: FilePatch) -> _PatchedFile | Refusal:
    content = _current_content(workspace, target, file)
    if isinstance(content, Refusal):
        return content
    # A file that is only moved may have any content.
    data, patched = content.data, None
    if file.sections:
        found = changed_content(content, "it", lambda text: apply_sections(text, file.sections))
        if isinstance(found, Refusal):
            return Refusal(f"{file.path}: {found.reason}")
        data, patched = found
    report = change_report(file.path, patched.diff) + hard_link_note(content) if patched else ""
    if patched and patched.inexact:
        lines = ", ".join(map(str, patched.inexact))
        report += (
            f"\nThe lines from {lines} on matched except for white space at their ends; those that stay were not "
            "changed."
        )
    if file.move_to is None:
        planned = PlannedFile(path=target, shown=file.path, before=content, after=data)
        return _PatchedFile(planned=(planned,), report=report, edits=patched.edits if patched else ())
    return _plan_move(workspace, target, file, content, data, report)


def _plan_move(
    workspace: Workspace, target: Path, file: FilePatch, content: FileContent, data: bytes, report: str
) -> _PatchedFile | Refusal:
    new = resolve_writable(workspace, file.move_to or "")
    if isinstance(new, Refusal):
        return new
    if refusal := _link_refusal(workspace, file):
        return refusal
    if new.exists():
        return Refusal(f"{file.path} cannot be moved to {file.move_to}: that exists. Choose another name.")
    written = PlannedFile(path=new, shown=file.move_to or "", before=None, after=data, mode=content.mode)
    deleted = PlannedFile(path=target, shown=file.path, before=content, after=None)
    lines = [line for line in (report, f"{file.path} moved to {file.move_to}.") if line]
    return _PatchedFile(planned=(written, deleted), report="\n".join(lines))


def _plan_deletion(workspace: Workspace, target: Path, file: FilePatch) -> _PatchedFile | Refusal:
    content = _link_refusal(workspace, file) or _current_content(workspace, target, file)
    if isinstance(content, Refusal):
        return content
    if content.data and not workspace.replaces_unread and not workspace.seen.knows(target):
        return Refusal(f"{file.path} was not read in this conversation: read it before you delete it.")
    planned = PlannedFile(path=target, shown=file.path, before=content, after=None)
    return _PatchedFile(planned=(planned,), report=f"{file.path} deleted.")


def _current_content(workspace: Workspace, target: Path, file: FilePatch) -> FileContent | Refusal:
    content = read_whole(workspace.root, target, file.path, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    return workspace.seen.change_since(target, content, file.path) or content


def _link_refusal(workspace: Workspace, file: FilePatch) -> Refusal | None:
    # Deleting or moving a link would be done to what it leads to.
    if not (workspace.root / file.path).is_symlink():
        return None
    return Refusal(f"{file.path} is a symbolic link; delete or move it with shell.")


def change_files(root: Path, planned: Sequence[PlannedFile]) -> Refusal | None:
    """Write and delete the files below `root`; return why nothing was changed, or None.

    Each file is replaced atomically, deletions come last: a process that is killed in between has lost no content.
    After a failure the files that were changed until then get their former contents back.
    """
    done: list[PlannedFile] = []
    for file in sorted(planned, key=lambda each: each.after is None):
        problem = _try_change(root, file)
        if problem is not None:
            left = [each.shown for each in reversed(done) if not _is_taken_back(root, each)]
            rest = f" But these were changed and could not be restored: {', '.join(left)}." if left else ""
            return Refusal(problem.reason + rest)
        done.append(file)
    return None


def _try_change(root: Path, file: PlannedFile) -> Refusal | None:
    origin = file.before.origin if file.before else None
    try:
        if file.after is not None:
            return replace_file(root, file.path, file.after, file.shown, origin=origin, mode=file.mode)
        return None if origin is None else remove_file(root, file.path, file.shown, origin=origin)
    except OSError as error:
        return Refusal(f"{file.shown} cannot be changed ({error.strerror or error}); nothing was written.")


def _is_taken_back(root: Path, file: PlannedFile) -> bool:
    now = None
    if file.after is not None:
        content = read_whole(root, file.path, file.shown, limit_bytes=len(file.after))
        # A change that was made in the meantime is not overwritten.
        if isinstance(content, Refusal) or content.data != file.after:
            return False
        now = content
    mode = file.before.mode if file.before else None
    back = PlannedFile(
        path=file.path, shown=file.shown, before=now, after=file.before.data if file.before else None, mode=mode
    )
    return _try_change(root, back) is None


def written_paths(tool: str, args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths that a call of a writing tool names, as the model wrote them; empty for other tools."""
    if tool == "apply_patch" and isinstance(patch := args.get("input"), str):
        files = parse_patch(patch)
        found = () if isinstance(files, Refusal) else (path for file in files for path in file.paths)
        return tuple(dict.fromkeys(found))[:COMPARED_FILES]
    path = args.get("path")
    return (path,) if tool in WRITING_TOOLS and isinstance(path, str) else ()
