"""Resolve the conflicts of a merge file by file, without a model: read the versions, merge and certify them."""

import asyncio
import tokenize
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.landing.conflict import FileMerge, FileVersions
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents
from scaffold.git.trees.merge import Conflicted, ConflictedPath, Stage
from scaffold.git.trees.tree_file import FILTER, MERGE, Attributes, NewFile, PrivateIndex
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.go_merge import merge_go_mod, merge_go_sum
from scaffold.landing.conflicts.json_merge import merge_json
from scaffold.landing.conflicts.line_merge import merge_items, merge_union
from scaffold.landing.conflicts.lock_files import MAX_BYTES as MAX_LOCK_BYTES
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_merge import merge_python
from scaffold.landing.conflicts.toml_merge import merge_toml
from scaffold.verify.paths.conventions import is_lock_file

UNSPECIFIED = "unspecified"
MERGED_AS_TEXT = frozenset({"set", "text", UNSPECIFIED})
"""Values of the attribute `merge` that allow a merge of lines."""
STAGE_ORDER: Sequence[Stage] = ("base", "ours", "theirs")
TYPES: Mapping[str, str] = {
    "CONFLICT (modify/delete)": "one side changes it, the other removes it",
    "CONFLICT (binary)": "it is a binary file",
    "CONFLICT (distinct modes)": "it is a file on one side and something else on the other",
    "CONFLICT (file/directory)": "it is a file on one side and a folder on the other",
    "CONFLICT (rename/delete)": "one side renames it, the other removes it",
    "CONFLICT (rename/rename)": "both sides rename it",
}
"""What git's types of conflicts mean that no merge of contents can resolve."""
IsUnion = Callable[[str], bool]
"""Whether the settings declare the lines of a path independent of each other."""
Merge = Callable[[str, str, str], str]
Method = Literal["union", "items", "manifest", "python", "rebase", "agent"]
METHODS: Mapping[Method, str] = {
    "union": "as a union of lines",
    "items": "by the items of its lists",
    "manifest": "by its entries",
    "python": "by its functions, classes and imports",
    "rebase": "by its commits, one after another",
    "agent": "by a merge agent",
}
"""How a file was resolved, for users."""
MANIFESTS: Mapping[str, Merge] = {
    "package.json": merge_json,
    "composer.json": merge_json,
    "pyproject.toml": merge_toml,
    "Cargo.toml": merge_toml,
    "go.mod": merge_go_mod,
    "go.sum": merge_go_sum,
}
"""{file name: merge of that manifest}."""
UNREADABLE = (SyntaxError, tokenize.TokenError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What a merge may raise over contents that agents wrote; it costs the candidate this step, not the run."""
MAX_BYTES = 2 * 1024 * 1024
"""The largest file whose contents are merged."""
MARK = "\ufeff"


class TextForm(Struct, frozen=True):
    """The form of a text: whether it has a byte order mark, CR LF as line ends, and a newline after the last line."""

    mark: bool = False
    crlf: bool = False
    ended: bool = True


class FileResolved(Struct, frozen=True, tag="resolved"):
    """Both sides' changes are in `text`."""

    text: str
    how: Method


class FileRefused(Struct, frozen=True, tag="refused"):
    """The file cannot be resolved without knowing the intent of both sides."""

    why: str


class ReadFile(Struct, frozen=True):
    """A file in conflict whose versions are text."""

    versions: FileVersions
    mode: str
    form: TextForm
    union: bool

    @property
    def path(self) -> str:
        """The file's path."""
        return self.versions.path

    def written(self, text: str) -> NewFile:
        """Return the file with a merged text; raise NotMergeable if that cannot be encoded."""
        return NewFile(self.mode, write_text(text, self.form))


class Resolution(Struct, frozen=True):
    """The outcome of the files in conflict."""

    files: Mapping[str, NewFile]
    """The results by path."""
    told: tuple[FileMerge, ...]
    """Each file that both sides changed."""
    readable: tuple[ReadFile, ...]
    """The files in conflict whose versions are text, without lock files."""
    locks: tuple[ReadFile, ...] = ()
    """The lock files in conflict whose versions are text."""

    @property
    def left(self) -> tuple[ReadFile, ...]:
        """The text files that no program could resolve."""
        return tuple(each for each in self.readable if each.path not in self.files)

    @property
    def refused(self) -> tuple[FileMerge, ...]:
        """The files that are still in conflict."""
        return tuple(each for each in self.told if each.is_open)


async def resolve_files(
    git: Git, index: PrivateIndex, conflicted: Conflicted, *, tip: Commit, is_union: IsUnion
) -> Resolution:
    """Resolve what needs no model; git attributes are read at the tip, so a candidate cannot change them."""
    versions = await read_versions(git, index, conflicted.files, tip=tip)
    # In a thread: a large file takes seconds, and the owner's heartbeat must not wait for it.
    return await asyncio.to_thread(resolve_versions, conflicted, versions, is_union=is_union)


class Versions(Struct, frozen=True):
    """The contents of the objects in conflict, and the git attributes of the paths at the tip."""

    contents: Mapping[str, bytes | None]
    attributes: Mapping[str, Attributes]


async def read_versions(git: Git, index: PrivateIndex, files: Sequence[ConflictedPath], *, tip: Commit) -> Versions:
    """Read the versions of files in conflict; one call serves many merges."""
    paths = list(dict.fromkeys(each.path for each in files))
    ids = list({stage.object_id: None for each in files if each.only_contents for stage in each.stages.values()})
    attributes = await index.attributes(tip, paths)
    return Versions(dict(zip(ids, await batch_contents(git, ids), strict=True)), attributes)


def resolve_versions(conflicted: Conflicted, versions: Versions, *, is_union: IsUnion) -> Resolution:
    """Resolve what needs no model, given the versions of the files in conflict. Pure."""
    files: dict[str, NewFile] = {}
    told = [FileMerge(path, "merged", "by git") for path in conflicted.auto_merged]
    readable: list[ReadFile] = []
    locks: list[ReadFile] = []
    for each in conflicted.files:
        try:
            file = _read_file(each, versions.contents, versions.attributes[each.path], is_union=is_union)
        except NotMergeable as refused:
            told.append(FileMerge(each.path, "refused", str(refused)))
            continue
        if is_lock_file(each.path):
            locks.append(file)
            told.append(FileMerge(each.path, "refused", "a lock file is made by its own tool"))
            continue
        readable.append(file)
        match merge_file(file.versions, union=file.union):
            case FileResolved(text=text, how=how):
                try:
                    files[each.path] = file.written(text)
                    told.append(resolved(each.path, how))
                except NotMergeable as refused:
                    told.append(FileMerge(each.path, "refused", str(refused)))
            case FileRefused(why=why):
                told.append(FileMerge(each.path, "refused", why))
    return Resolution(files, tuple(told), tuple(readable), tuple(locks))


def resolved(path: str, how: Method) -> FileMerge:
    """Return the outcome of a file whose conflict was resolved."""
    return FileMerge(path, "resolved", METHODS[how])


def _read_file(
    file: ConflictedPath, contents: Mapping[str, bytes | None], attributes: Attributes, *, is_union: IsUnion
) -> ReadFile:
    union = attributes.get(MERGE) == "union" or is_union(file.path)
    if not union and attributes.get(MERGE, UNSPECIFIED) not in MERGED_AS_TEXT:
        raise NotMergeable("its attributes say that it is not merged as text")
    if not file.only_contents:
        raise NotMergeable(next((TYPES[kind] for kind in file.kinds if kind in TYPES), "it is not only its contents"))
    # The stored blob of a filtered file is not what the user edits.
    if attributes.get(FILTER, UNSPECIFIED) not in {UNSPECIFIED, "unset"}:
        raise NotMergeable("a filter stores something else for it, e.g. git-lfs")
    versions = [file.stages.get(stage) for stage in STAGE_ORDER]
    texts: list[tuple[str, TextForm] | None] = []
    limit = MAX_LOCK_BYTES if is_lock_file(file.path) else MAX_BYTES
    for each in versions:
        data = None if each is None else contents.get(each.object_id)
        if each is not None and data is None:
            raise NotMergeable("the repository lacks a version of it")
        texts.append(None if data is None else read_text(data, limit))
    base, ours, theirs = texts
    if ours is None or theirs is None:
        raise NotMergeable("a side does not have it")
    return ReadFile(
        versions=FileVersions(file.path, base[0] if base else "", ours[0], theirs[0]),
        mode=_merged_mode(file),
        form=merged_form(base[1] if base else None, ours[1], theirs[1]),
        union=union,
    )


def _merged_mode(file: ConflictedPath) -> str:
    base, ours, theirs = (file.stages[stage].mode if stage in file.stages else None for stage in STAGE_ORDER)
    if theirs in {ours, base}:
        return ours or ""
    if ours == base:
        return theirs or ""
    raise NotMergeable("both sides add it, with other permissions")


def merge_file(versions: FileVersions, *, union: bool = False) -> FileResolved | FileRefused:
    """Resolve a file by the merge for its kind; `union` declares its lines independent of each other. Pure."""
    name = PurePosixPath(versions.path).name
    how: Method
    merge: Merge
    if union:
        how, merge = "union", merge_union
    elif name in MANIFESTS:
        how, merge = "manifest", MANIFESTS[name]
    elif name.endswith((".py", ".pyi")):
        how, merge = "python", merge_python
    else:
        how, merge = "items", merge_items
    try:
        merged = merge(versions.base, versions.ours, versions.theirs)
        require_complete(versions, merged)
    except NotMergeable as refused:
        return FileRefused(str(refused))
    except UNREADABLE as error:
        return FileRefused(f"merging it failed: {type(error).__name__}: {error}")
    return FileResolved(merged, how)


def read_text(data: bytes, limit: int = MAX_BYTES) -> tuple[str, TextForm]:
    """Return the text with plain newlines and its form; raise NotMergeable unless UTF-8 with uniform line ends."""
    if len(data) > limit:
        raise NotMergeable(f"it has more than {limit // 1024} KB")
    if b"\0" in data:
        raise NotMergeable("it is a binary file")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotMergeable("it is not in UTF-8") from error
    crlf = text.count("\r\n")
    if text.count("\r") != crlf or (crlf and crlf != text.count("\n")):
        raise NotMergeable("its lines do not all end in the same way")
    form = TextForm(mark=text.startswith(MARK), crlf=crlf > 0, ended=not text or text.endswith("\n"))
    lines = text.removeprefix(MARK).replace("\r\n", "\n")
    return (lines if form.ended else lines + "\n"), form


def write_text(text: str, form: TextForm) -> bytes:
    """Return the bytes of a text in this form; raise NotMergeable if UTF-8 cannot encode it."""
    lines = text if form.ended else text.removesuffix("\n")
    # JSON escapes can name lone surrogates.
    try:
        return ((MARK if form.mark else "") + (lines.replace("\n", "\r\n") if form.crlf else lines)).encode()
    except UnicodeEncodeError as error:
        raise NotMergeable("it would have characters that UTF-8 cannot write") from error


def merged_form(base: TextForm | None, ours: TextForm, theirs: TextForm) -> TextForm:
    """Return the form with the changes of both sides; raise NotMergeable if both add the file in different forms."""
    if ours != theirs and base is None:
        raise NotMergeable("both sides add it, with other line ends or another encoding")
    was = base or ours
    return TextForm(
        mark=theirs.mark if ours.mark == was.mark else ours.mark,
        crlf=theirs.crlf if ours.crlf == was.crlf else ours.crlf,
        ended=theirs.ended if ours.ended == was.ended else ours.ended,
    )
