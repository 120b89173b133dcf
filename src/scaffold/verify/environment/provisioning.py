"""Copy the prepared dependencies into checkouts, adjust their paths, and clean checkouts after commands."""

import asyncio
import hashlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import product
from pathlib import Path

from msgspec import structs

from scaffold.core.errors import ScaffoldError
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile, CopiedFolder
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.worktree_metadata import detached_commit
from scaffold.host.atomic_files import delete_path, write_atomic
from scaffold.host.contained_path import ContainedPath
from scaffold.host.folder_tree import walk
from scaffold.host.tree_copy import LinkTargetMap, copy_beneath, move_beneath
from scaffold.verify.contract.check_runs import Tree

MAX_BYTES = 1_000_000
"""Larger files are not rewritten: files with paths are smaller, programs are larger."""
PATH_BEARING_FILES = (
    "pyvenv.cfg",
    "bin/*",
    "lib*/python*/site-packages/*.pth",
    "lib*/python*/site-packages/*.egg-link",
    "lib*/python*/site-packages/__editable__*",
    "lib*/python*/site-packages/_*_editable*.py",
    "lib*/python*/site-packages/*.dist-info/direct_url.json",
)
"""Files in a virtual environment that contain its own path or the path of editable sources."""
_SHEBANG = re.compile(rb"#!\s*(?P<program>/.*?)(?P<options>( -\S+)*)\r?\n")
_EXEC = re.compile(rb"#!/bin/sh\n'''exec' \"?(?P<program>/.*?)\"?(?P<options>( -\S+)*) \"\$0\" \"\$@\"\n' '''\n")
_ACTIVATED = re.compile(
    rb"^(?P<sets>VIRTUAL_ENV=|set -gx VIRTUAL_ENV |setenv VIRTUAL_ENV )(?P<path>/[^\s'\"]*)$", re.MULTILINE
)
"""An unquoted path in an activation script; venv quotes paths only if needed."""
STAGING_FOLDER = "staging"
"""The folder next to the golden environments for unfinished copies and the recorded states of copies."""


async def provision_checkout(environment: CheckEnvironment | None, top: Path) -> None:
    """Copy the prepared dependencies and files into the checkout at `top`, unless they already exist there.

    Existing ones are not verified: clean a used checkout first. A folder whose parent folder no longer exists is
    skipped. ScaffoldError if a prepared folder or file is missing.
    """
    for copied in environment.copies if environment else ():
        if _has_room(top, copied.target):
            await _put_copy(copied, top, led=partial(relocated_link, copied.made_for, str(top), copied.target))
            await asyncio.to_thread(_record_copy_state, copied, top)
    for file in (*environment.files, *environment.built) if environment else ():
        if _has_room(top, file.target, folders_missing=True):
            await _put_copy(file, top)


@asynccontextmanager
async def reprovision(environment: CheckEnvironment | None, top: Path) -> AsyncIterator[None]:
    """Provision the checkout at `top` again after the block has reset it, keeping unchanged copies.

    A changed copy is recognised by ctimes, which no command can set.
    """
    copies = environment.copies if environment else ()
    kept = await asyncio.to_thread(_set_aside, copies, top)
    try:
        yield
        for copied in kept:
            if _has_room(top, copied.target):
                move_beneath(_contained(_copy_record_path(copied, top, "kept")), ContainedPath(top, copied.target))
                await asyncio.to_thread(_record_copy_state, copied, top)
    finally:
        for copied in kept:
            await asyncio.to_thread(delete_path, _copy_record_path(copied, top, "kept"))
    await provision_checkout(environment, top)


def forget_copies(environment: CheckEnvironment | None, tops: Iterable[Path]) -> None:
    """Delete the records about the copies in the checkouts `tops`, which no longer exist."""
    copies = environment.copies if environment else ()
    for copied, top in product(copies, tops):
        for what in ("kept", "note"):
            delete_path(_copy_record_path(copied, top, what))


def provisions_unchanged(environment: CheckEnvironment | None, top: Path) -> bool:
    """Return True if all copies in the checkout at `top` are as they were put there."""
    copies = environment.copies if environment else ()
    files = (*environment.files, *environment.built) if environment else ()
    return all(_recorded_copy_state(each, top) == (_copy_state(top, each) or "") for each in copies) and all(
        _same_content(Path(each.source), ContainedPath(top, each.target)) for each in files
    )


def _same_content(source: Path, copy: ContainedPath) -> bool:
    try:
        data = source.read_bytes()
    except OSError:
        return False
    return copy.read(len(data)) == data


def _set_aside(copies: tuple[CopiedFolder, ...], top: Path) -> list[CopiedFolder]:
    kept = [copied for copied in copies if _recorded_copy_state(copied, top) == _copy_state(top, copied)]
    for copied in kept:
        aside = _copy_record_path(copied, top, "kept")
        delete_path(aside)
        move_beneath(ContainedPath(top, copied.target), _contained(aside))
    return kept


def _record_copy_state(copied: CopiedFolder, top: Path) -> None:
    write_atomic(_copy_record_path(copied, top, "note"), (_copy_state(top, copied) or "").encode())


def _recorded_copy_state(copied: CopiedFolder, top: Path) -> str:
    try:
        return _copy_record_path(copied, top, "note").read_text("ascii")
    except OSError:
        return ""


def _copy_record_path(copied: CopiedFolder | CopiedFile, top: Path, what: str) -> Path:
    """Return the path of a copy's record or temporary folder, on the file system of the golden environments."""
    environments = Path(copied.source.removesuffix(copied.target)).parents[1]
    name = hashlib.sha256(os.fsencode(top / copied.target)).hexdigest()[:32]
    # A rename works only within one file system, and the checkout must not contain what git would report as untracked.
    return environments / STAGING_FOLDER / f"{name}.{what}"


def _copy_state(top: Path, copied: CopiedFolder) -> str | None:
    """Return a hash that changes with the original and with any change in its copy.

    None if there is no copy, or a parent is not a real folder.
    """
    lines = hashlib.sha256(os.fsencode(copied.source))
    try:
        # With a link here, an agent could choose which folder is moved aside and back.
        if not all(_is_folder(top / each) for each in Path(copied.target).parents):
            return None
        for line in _file_states(str(top / copied.target)):
            lines.update(line.encode(errors="surrogateescape"))
    except OSError:
        return None
    return lines.hexdigest()


def _file_states(path: str) -> Iterator[str]:
    yield _file_state(path)
    for folder, folders, others in () if os.path.islink(path) else walk(path):  # noqa: PTH114 - as `walk`
        folders.sort()
        yield from (_file_state(f"{folder}/{name}") for name in sorted((*folders, *others)))


def _file_state(path: str) -> str:
    found = os.lstat(path)
    return f"{path}\0{found.st_ino}\0{found.st_ctime_ns}\0{found.st_size}\n"


async def _put_copy(copied: CopiedFolder | CopiedFile, top: Path, *, led: LinkTargetMap | None = None) -> None:
    """Put a copy into the checkout atomically; with `led`, for links, its paths are those of the checkout."""
    staged, source = _copy_record_path(copied, top, "new"), Path(copied.source)
    await asyncio.to_thread(delete_path, staged)
    try:
        await copy_beneath(_contained(source), _contained(staged), led=led or (lambda _, leads: leads))
        if isinstance(copied, CopiedFolder):
            await asyncio.to_thread(_relocate_copy, staged, copied.made_for, str(top))
        move_beneath(_contained(staged), ContainedPath(top, copied.target))
    except OSError as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be copied ({error.strerror})"
        raise ScaffoldError(
            f"{source} {what}, but checks need it",
            "run `scaffold baseline reset`, then `scaffold resume` to prepare it again",
        ) from error
    finally:
        await asyncio.to_thread(delete_path, staged)


def _contained(path: Path) -> ContainedPath:
    # The folder around it may be missing yet; what is above was made by us.
    return ContainedPath(path.parents[1], f"{path.parent.name}/{path.name}")


def _relocate_copy(staged: Path, made_for: str, top: str) -> None:
    relocate_copy(staged, made_for, top)
    ignore = staged / ".gitignore"
    if _is_folder(staged) and not os.path.lexists(ignore):
        # So that it is never part of the work, whatever the repository ignores.
        ignore.write_text("*\n")


def _has_room(top: Path, target: str, *, folders_missing: bool = False) -> bool:
    """Return True if `target` does not exist and its parents are real folders of the checkout, or may be missing.

    A symbolic link among the parents would redirect the write outside the checkout.
    """
    missing = (folders_missing and not os.path.lexists(top / each) for each in Path(target).parents)
    return not os.path.lexists(top / target) and all(
        absent or _is_folder(top / each) for absent, each in zip(missing, Path(target).parents, strict=True)
    )


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def relocated_link(made_for: str, top: str, target: str, folder: str, leads: str) -> str:
    """Return the target of a copied link, with the checkout `made_for` replaced by the one at `top`.

    The link is in `folder` below the copied folder, which was `target` in `made_for`, and points to `leads`.
    A link that points outside the checkout, absolute or relative, keeps pointing there.
    """
    here = Path(made_for, target, folder)
    path = os.path.normpath(here / leads)
    inside = path == made_for or path.startswith(f"{made_for}/")
    # A relative link inside the checkout stays right in every copy; one that leads out starts from another folder now.
    if not leads.startswith("/"):
        return leads if inside else path
    return f"{top}{path.removeprefix(made_for)}" if inside else leads


def relocate_copy(copy: Path, made_for: str, top: str) -> None:
    """Replace the path of the checkout `made_for` by `top` in the files of `copy`."""
    for path in (path for pattern in PATH_BEARING_FILES for path in copy.glob(pattern)):
        found = path.lstat()
        # A folder that is a link may lead out of the copy.
        led = any((copy / each).is_symlink() for each in path.relative_to(copy).parents)
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES and not led:
            content = path.read_bytes()
            moved = relocated_content(content, made_for.encode(), top.encode())
            if moved != content:
                path.write_bytes(moved)  # the new mtime invalidates stale bytecode


def relocated_content(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return the content of a file with the path `old`, also as a prefix of longer paths, replaced by `new`.

    A script's shebang line becomes one for /bin/sh that starts the interpreter: a shebang path has a length limit and
    cannot contain spaces.
    """
    script = _SHEBANG.match(content) if not (by_shell := _EXEC.match(content)) else by_shell
    moved = _replace_paths(_quote_path(content, old, new), old, new)
    if script is None or not _lies_in(script["program"], old):
        return moved
    program = _replace_paths(script["program"], old, new)
    first = b"#!/bin/sh\n'''exec' \"" + program + b'"' + script["options"] + b" \"$0\" \"$@\"\n' '''\n"
    return first + _replace_paths(content[script.end() :], old, new)


def _quote_path(content: bytes, old: bytes, new: bytes) -> bytes:
    """Quote the path `old` in an activation script if the shell needs quotes for `new`."""
    if shlex.quote(os.fsdecode(new)) == os.fsdecode(new):
        return content
    return _ACTIVATED.sub(
        lambda line: line["sets"] + b"'" + line["path"] + b"'" if _lies_in(line["path"], old) else line[0], content
    )


def _lies_in(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")


def _replace_paths(content: bytes, old: bytes, new: bytes) -> bytes:
    # Whole paths only: `/a/b` does not match in `/a/bc`.
    # A function, because a backslash in the new path would be an escape in a replacement text.
    return re.sub(re.escape(old) + rb"(?![\w.-])", lambda _: new, content)


async def is_clean(environment: CheckEnvironment, tree: Tree) -> bool:
    """Return True if the checkout has only the commit's files and the provisioned copies, all unchanged."""
    # Where something ran on the base, nothing has changed since, either.
    if detached_commit(tree.git.registration) != tree.commit:
        return False
    targets = (
        *(copied.target for copied in environment.copies),
        *(file.target for file in (*environment.files, *environment.built)),
    )

    def is_provisioned(line: str) -> bool:
        path = line[3:].rstrip("/")
        return line.startswith(("?? ", "!! ")) and any(path == each or path.startswith(f"{each}/") for each in targets)

    if not all(map(is_provisioned, (await tree.git(*worktree.STATUS, "--ignored")).records)):
        return False
    return await asyncio.to_thread(provisions_unchanged, environment, tree.git.cwd)


async def clean_again(environment: CheckEnvironment, tree: Tree) -> None:
    """Clean the checkout after commands ran in it; do nothing if it is still clean."""
    if not await is_clean(environment, tree):
        async with reprovision(environment, tree.git.cwd):
            await worktree.reset_and_clean(tree.git, tree.commit)


def with_new_temporary_folder(tree: Tree) -> Tree:
    """Return the tree with a new, empty temporary folder for its commands; without a sandbox, the same tree.

    Commands thus do not find what an earlier run left in the other folder.
    """
    if tree.sandbox is None:
        return tree
    confinement = tree.sandbox.confinement
    folder = Path(tempfile.mkdtemp(prefix="", dir=confinement.temporary.parent)).resolve()
    sandbox = structs.replace(tree.sandbox, confinement=structs.replace(confinement, temporary=folder))
    return structs.replace(tree, sandbox=sandbox)
