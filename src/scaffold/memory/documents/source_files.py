"""Files to ingest: found below folders, opened without waiting for a pipe, told apart by their content."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import NotInRepository, UsageError
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import find_top
from scaffold.host.folder_tree import walk
from scaffold.memory.chunking.split import KINDS
from scaffold.policy.secret.unreadable_files import secret_entry

OTHER_TEXTS = frozenset(
    {".adoc", ".bash", ".cc", ".cpp", ".cs", ".cxx", ".ex", ".exs", ".hh", ".hpp", ".html", ".kt", ".lua", ".org"}
    | {".php", ".pl", ".proto", ".r", ".rb", ".rst", ".scala", ".sh", ".sql", ".swift", ".tex", ".txt", ".zsh"}
)
SKIPPED = frozenset({"__pycache__", "node_modules", "target", "venv"})
MOST_FILES = 10_000
MAX_TEXT_BYTES = 20_000_000
BLOCK_BYTES = 1 << 20
PDF_SUFFIX = ".pdf"
SUFFIXES = frozenset({PDF_SUFFIX, *KINDS}) | OTHER_TEXTS
"""The files read from a folder; a file named by the user may have any suffix."""
SOURCE = "file:"
"""The beginning of the source of a document and its chunks; then comes its name."""
PAGES_OF = "#pages="
"""What follows in the source of a document that is only some pages of a file."""
HEAD_BYTES = 1_024
MAGIC = b"%PDF-"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_ENCODINGS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class OpenedFile(Struct, frozen=True):
    """An open regular file, and how it is called."""

    file: int
    name: str
    """Its name in messages."""

    is_pdf: bool
    """Whether it is read as a PDF."""

    @property
    def version(self) -> tuple[int, int, int]:
        """What is different once its content has changed."""
        status = os.fstat(self.file)
        return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def opened_file(path: Path, name: str) -> Iterator[OpenedFile]:
    """Open a file that the user names; UsageError if there is nothing to read, or secrets."""
    if entry := secret_entry(str(path.resolve())):
        raise UsageError(f"{name} contains secrets ({entry}), which are not stored", "Name another file.")
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        # To open a device may have an effect already.
        if kind not in {stat.S_IFREG, stat.S_IFDIR}:
            raise UsageError(f"{name} is a pipe, socket or device", "Name a file.")
        file = os.open(path, _FLAGS)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}", "Name another file.") from error
    try:
        require_regular(file, name)
        # By its name, too: a damaged one has no other sign.
        is_pdf = path.suffix.lower() == PDF_SUFFIX or MAGIC in os.pread(file, HEAD_BYTES, 0)
        yield OpenedFile(file, name, is_pdf=is_pdf)
    finally:
        os.close(file)


def require_regular(file: int, name: str) -> None:
    """Raise UsageError if an open file is a folder, pipe or device."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise UsageError(f"{name} is not a regular file", "Name a file.")


def content_hash(file: int) -> str:
    """Return the hash of an open file's content."""
    digest, at = hashlib.sha256(), 0
    while block := os.pread(file, BLOCK_BYTES, at):
        digest.update(block)
        at += len(block)
    return digest.hexdigest()


def read_text(opened: OpenedFile) -> str:
    """Return the text of an open file; UsageError if it is binary, empty or too long."""
    size = os.fstat(opened.file).st_size
    if size > MAX_TEXT_BYTES:
        raise UsageError(f"{opened.name} is too large: {size:,} bytes, at most {MAX_TEXT_BYTES:,}", "Split it.")
    content = b""
    while len(content) < MAX_TEXT_BYTES and (block := os.pread(opened.file, BLOCK_BYTES, len(content))):
        content += block
    encoding = next((name for mark, name in _ENCODINGS.items() if content.startswith(mark)), "utf-8")
    if b"\0" in content and encoding != "utf-16":
        raise UsageError(f"{opened.name} is not a text", "Convert it to a PDF or a text.")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:  # an old encoding without a mark: its words in ASCII are still found
        text = content.decode("latin-1" if encoding == "utf-8" else encoding, "replace")
    plain = text.replace("\r\n", "\n").replace("\0", " ")
    if not plain.strip():
        raise UsageError(f"{opened.name} is empty", "Name another file.")
    return plain


async def documents_below(folder: Path) -> list[Path]:
    """Return the documents below a folder, in order; UsageError if there are none, or too many."""
    try:
        find_top(folder)
    except NotInRepository:
        names = list(_walk_files(folder))
    else:
        listed = await Git(folder, environ=os.environ)("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = list(dict.fromkeys(listed.records))
    found = [folder / each for each in sorted(names) if _is_document(folder, each)]
    if not found:
        raise UsageError(f"there are no documents below {folder}", "Name a file, or another folder.")
    if len(found) > MOST_FILES:
        raise UsageError(f"{folder} has {len(found):,} documents, at most {MOST_FILES:,}", "Name a folder in it.")
    return found


def _walk_files(top: Path) -> Iterator[str]:
    # Without git, those that are not hidden.
    for folder, folders, files in walk(top):
        # Hidden folders have settings and caches, no documents.
        folders[:] = [each for each in folders if not each.startswith(".") and each not in SKIPPED]
        yield from (str((Path(folder) / each).relative_to(top)) for each in files if not each.startswith("."))


def _is_document(folder: Path, name: str) -> bool:
    path = folder / name
    if path.suffix.lower() not in SUFFIXES or secret_entry(str(path)):
        return False
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
