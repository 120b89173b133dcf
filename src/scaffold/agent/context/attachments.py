"""Files the user attaches by name: `@path`, `@path:10-20`, `@"a path"`; as text or as images."""

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from mimetypes import guess_type
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from scaffold.agent.context.text_size import cut_middle
from scaffold.core.conversation import Image, ImageType, Text
from scaffold.core.printable_text import count_of
from scaffold.host.contained_path import ContainedPath
from scaffold.host.folder_tree import is_folder

ATTACHMENT_PREFIX = "Attached: "
"""Starts the text of each attachment; the name follows."""
MAX_ATTACHMENTS = 20
TEXT_LIMIT = 100_000
"""Bytes attached of a text; a longer one loses its middle."""
READABLE_BYTES = 10_000_000
IMAGE_BYTES = 5_000_000
MAX_ENTRIES = 200
"""Names listed of a folder."""
SNIFFED_BYTES = 8_192

_NAMED = re.compile(r"""(?<![^\s(\[{'"])@(?:"(?P<quoted>[^"\n]+)"(?P<after>:\d+(?:-\d+)?)?|(?P<bare>[^\s"]+))""")
_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?", re.DOTALL)
_LIKE_A_FILE = re.compile(
    r"[\w.~+-]*(/[\w.+-]+)+|[\w+-]+\.(c|cfg|cpp|css|csv|gif|go|h|html|ini|java|jpe?g|jsx?|json|lock|log|md|pdf|png|py"
    r"|rb|rs|sh|sql|toml|tsx?|txt|webp|xml|ya?ml)"
)
_PUNCTUATION = ".,;:!?)]}'\""


class AttachedMessage(Struct, frozen=True):
    """The user's message with its attachments as parts for a model; `notices` are for the user."""

    parts: tuple[Text | Image, ...]
    notices: tuple[str, ...]


class AttachmentReference(Struct, frozen=True):
    """A file or folder to attach; `first` and `last` are line numbers from 1, 0 for the whole file."""

    path: ContainedPath
    shown: str
    first: int = 0
    last: int = 0


class SkippedAttachment(Struct, frozen=True):
    """A name that is not attached, and why."""

    why: str


class AttachmentPlaces(Struct, frozen=True, kw_only=True):
    """Where named files are looked for."""

    cwd: Path
    home: Path
    top: Path
    """The repository or folder that links must not leave: others may have made them to expose the user's files."""
    outside: bool
    """Whether paths outside of `top` are attached: if the user has typed them, who is there."""


def attach(
    words: str, places: AttachmentPlaces, *, images: bool = True, clean: Callable[[str], str] = str
) -> AttachedMessage:
    """Return the text with the files it names by `@`; paths are relative to `cwd`, and `~` is `home`.

    The text itself is unchanged. Other uses of `@` (addresses, decorators) are ignored; a name that looks like a
    missing file gets a notice. `images`: whether the model accepts images. `clean` removes secrets from files.
    """
    parts: list[Text | Image] = [Text(words)]
    notices: list[str] = []
    named = dict.fromkeys(_file_references(words, places))
    for each in islice(named, MAX_ATTACHMENTS):
        found = each if isinstance(each, SkippedAttachment) else _path_content(each, images=images, clean=clean)
        if isinstance(found, SkippedAttachment):
            notices.append(found.why)
        else:
            parts += found
    if len(named) > MAX_ATTACHMENTS:
        notices.append(f"only the first {MAX_ATTACHMENTS} of {len(named)} named files are attached")
    return AttachedMessage(tuple(parts), tuple(notices))


def dropped_images(pasted: str) -> str:
    """Return the words for files that were dragged onto a terminal, images as `@path`; empty for any other text.

    Terminals paste an absolute path or a URL for each file, quoted or escaped for a shell.
    """
    text = pasted.strip()
    try:
        names = [text] if _is_file(text) else shlex.split(text)
    except ValueError:  # an open quote
        return ""
    paths = [unquote(urlsplit(name).path) if name.startswith("file://") else name for name in names]
    if not all(map(_is_file, paths)):
        return ""
    images = {
        path for path in paths if not re.search(r'["\n]', path) and (guess_type(path)[0] or "").startswith("image/")
    }
    return " ".join(f'@"{path}"' if path in images else shlex.quote(path) for path in paths) if images else ""


def _is_file(path: str) -> bool:
    try:
        return path.startswith("/") and Path(path).is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _file_references(words: str, places: AttachmentPlaces) -> Iterator[AttachmentReference | SkippedAttachment]:
    for found in _NAMED.finditer(words):
        name = found["bare"] or found["quoted"] + (found["after"] or "")
        named = next((each for each in _possible_names(name, places) if each is not None), None)
        if named is not None:
            yield named
        elif found["quoted"] or _LIKE_A_FILE.fullmatch(name.rstrip(_PUNCTUATION)):
            yield SkippedAttachment(f"@{name.rstrip(_PUNCTUATION)} does not exist and was not attached")


def _possible_names(name: str, places: AttachmentPlaces) -> Iterator[AttachmentReference | SkippedAttachment | None]:
    # Likeliest first: as written, with a line range, without trailing punctuation.
    for text in dict.fromkeys((name, name.rstrip(_PUNCTUATION))):
        yield _existing_path(text, places)
        if ranged := _RANGE.fullmatch(text):
            first = int(ranged["first"])
            yield _existing_path(ranged["path"], places, first, int(ranged["last"] or first))


def _existing_path(
    name: str, places: AttachmentPlaces, first: int = 0, last: int = 0
) -> AttachmentReference | SkippedAttachment | None:
    if not name or "\0" in name:
        return None
    path, top = places.home / name[2:] if name.startswith("~/") else places.cwd.resolve() / name, places.top.resolve()
    try:
        reached = path.resolve(strict=True)
    except (OSError, RuntimeError):  # missing, or a loop of links
        return None
    place = ContainedPath(reached.parent, reached.name)
    if reached.is_relative_to(top):
        place = ContainedPath(top, "/".join(reached.relative_to(top).parts))
    elif Path(os.path.normpath(path)).is_relative_to(top):
        return SkippedAttachment(f"@{name} is a link that leads outside {top} and was not attached")
    elif not places.outside:
        return SkippedAttachment(
            f"@{name} is outside {top} and was not attached, because nobody is there to ask; pipe it in: "
            "`ralph -p ... < FILE`"
        )
    lines = f":{first}-{last}" if first else ""
    return AttachmentReference(place, f"{name}{lines}", first, last)


def _path_content(
    named: AttachmentReference, *, images: bool, clean: Callable[[str], str]
) -> list[Text | Image] | SkippedAttachment:
    status = named.path.status()
    try:
        if status is not None and stat.S_ISDIR(status.st_mode):
            with named.path.opened() as folder, os.scandir(folder) as entries:
                names = sorted(f"{entry.name}/" if is_folder(entry) else entry.name for entry in entries)
            more = [f"... and {len(names) - MAX_ENTRIES} more"] if len(names) > MAX_ENTRIES else []
            head = f"{ATTACHMENT_PREFIX}the names in {named.shown}"
            return [Text("\n".join([head, *names[:MAX_ENTRIES], *more]), "file")]
    except OSError as error:
        return SkippedAttachment(f"@{named.shown} cannot be read and was not attached: {error.strerror}")
    data = _file_bytes(named, status)
    if isinstance(data, SkippedAttachment):
        return data
    media_type = _image_type(data)
    return _file_text(named, data, clean) if media_type is None else _image_part(named, media_type, data, images=images)


def _file_bytes(named: AttachmentReference, status: os.stat_result | None) -> bytes | SkippedAttachment:
    if status is None or not stat.S_ISREG(status.st_mode):
        return SkippedAttachment(f"@{named.shown} is not a regular file and was not attached")
    if status.st_size > READABLE_BYTES:
        return SkippedAttachment(
            f"@{named.shown} is too large to attach ({status.st_size:,} bytes); the limit is {READABLE_BYTES:,}, "
            f"for images {IMAGE_BYTES:,}"
        )
    data = named.path.read(READABLE_BYTES)
    if isinstance(data, str):
        return SkippedAttachment(f"@{named.shown} was not attached: {data}")
    return data


def _image_part(
    named: AttachmentReference, media_type: ImageType, data: bytes, *, images: bool
) -> list[Text | Image] | SkippedAttachment:
    if not images:
        return SkippedAttachment(f"@{named.shown} is an image, which this model does not accept; it was not attached")
    if len(data) > IMAGE_BYTES:
        return SkippedAttachment(
            f"@{named.shown} is too large to attach ({len(data):,} bytes); the limit for images is {IMAGE_BYTES:,}"
        )
    return [Text(f"{ATTACHMENT_PREFIX}{named.shown}", "file"), Image(media_type, data)]


def _file_text(
    named: AttachmentReference, data: bytes, clean: Callable[[str], str]
) -> list[Text | Image] | SkippedAttachment:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return SkippedAttachment(
            f"@{named.shown} is neither text nor an image (png, jpeg, gif, webp) and was not attached"
        )
    if "\0" in text[:SNIFFED_BYTES]:
        return SkippedAttachment(f"@{named.shown} is a binary file and was not attached")
    if named.first:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[named.first - 1 : named.last])
        if not text:
            return SkippedAttachment(
                f"@{named.shown} is outside the file, which has {count_of(len(lines), 'line')}; it was not attached"
            )
    return [Text(f"{ATTACHMENT_PREFIX}{named.shown}\n{cut_middle(clean(text), TEXT_LIMIT)}", "file")]


def _image_type(data: bytes) -> ImageType | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
