"""What the user attaches by naming it: `@path`, `@path:10-20`, `@"a path"`; files as text, pictures as pictures."""

import re
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from scaffold.agent.measure import shortened
from scaffold.core.conversation import Image, ImageType, Text

ATTACHED = "Attached: "
"""How the text of everything attached begins; the name follows."""
MOST = 20
"""How many things can be attached at once."""
TEXT_LIMIT = 100_000
"""Bytes of a text that are attached; of a longer one its head and tail."""
READABLE_BYTES = 10_000_000
IMAGE_BYTES = 5_000_000
ENTRIES = 200
"""How many names of a folder are listed."""
SNIFFED_BYTES = 8_192

_NAMED = re.compile(r"""(?<![^\s(\[{'"])@(?:"(?P<quoted>[^"\n]+)"(?P<after>:\d+(?:-\d+)?)?|(?P<bare>[^\s"]+))""")
_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?", re.DOTALL)
_LIKE_A_FILE = re.compile(
    r"[\w.~+-]*(/[\w.+-]+)+|[\w+-]+\.(c|cfg|cpp|css|csv|gif|go|h|html|ini|java|jpe?g|jsx?|json|lock|log|md|pdf|png|py"
    r"|rb|rs|sh|sql|toml|tsx?|txt|webp|xml|ya?ml)"
)
_PUNCTUATION = ".,;:!?)]}'\""


class Attached(Struct, frozen=True):
    """The user's words and what they name, in parts for a model; `notices` are for the user."""

    parts: tuple[Text | Image, ...]
    notices: tuple[str, ...]


class Named(Struct, frozen=True):
    """Something to attach: `first` and `last` are lines from 1, 0 where all are meant."""

    path: Path
    shown: str
    first: int = 0
    last: int = 0


class Unattached(Struct, frozen=True):
    """Something that was named and is not attached, and why."""

    why: str


def attach(words: str, *, cwd: Path, home: Path, images: bool = True, clean: Callable[[str], str] = str) -> Attached:
    """Return the words with what they name by `@`; paths are relative to `cwd`, and `~` is `home`.

    The words stay as they are. What names nothing - addresses, decorators - is left alone; what looks like a file and
    is none gets a notice. `images` tells whether the model can see pictures; `clean` takes secrets out of files.
    """
    parts: list[Text | Image] = [Text(words)]
    notices: list[str] = []
    named = dict.fromkeys(_named(words, cwd, home))
    for each in islice(named, MOST):
        found = each if isinstance(each, Unattached) else _content(each, images=images, clean=clean)
        if isinstance(found, Unattached):
            notices.append(found.why)
        else:
            parts += found
    if len(named) > MOST:
        notices.append(f"{len(named) - MOST} more files are named; at most {MOST} are attached")
    return Attached(tuple(parts), tuple(notices))


def _named(words: str, cwd: Path, home: Path) -> Iterator[Named | Unattached]:
    for found in _NAMED.finditer(words):
        name = found["bare"] or found["quoted"] + (found["after"] or "")
        named = next((each for each in _readings(name, cwd, home) if each is not None), None)
        if named is not None:
            yield named
        elif found["quoted"] or _LIKE_A_FILE.fullmatch(name.rstrip(_PUNCTUATION)):
            yield Unattached(f"@{name.rstrip(_PUNCTUATION)} names no file and stays as it is")


def _readings(name: str, cwd: Path, home: Path) -> Iterator[Named | None]:
    """Yield what a name may mean, the likeliest first: as it stands, with a range, without the sentence's end."""
    for text in dict.fromkeys((name, name.rstrip(_PUNCTUATION))):
        yield _existing(text, cwd, home)
        if ranged := _RANGE.fullmatch(text):
            first = int(ranged["first"])
            yield _existing(ranged["path"], cwd, home, first, int(ranged["last"] or first))


def _existing(name: str, cwd: Path, home: Path, first: int = 0, last: int = 0) -> Named | None:
    if not name or "\0" in name:
        return None
    path = home / name[2:] if name.startswith("~/") else cwd / name
    try:
        path.stat()
    except OSError:
        return None
    lines = f":{first}-{last}" if first else ""
    return Named(path, f"{name}{lines}", first, last)


def _content(named: Named, *, images: bool, clean: Callable[[str], str]) -> list[Text | Image] | Unattached:
    try:
        if named.path.is_dir():
            return [Text(_listing(named))]
        data = _bytes(named)
    except OSError as error:
        return Unattached(f"@{named.shown} cannot be read and is not attached: {error.strerror}")
    if isinstance(data, Unattached):
        return data
    media_type = _image_type(data)
    return _text(named, data, clean) if media_type is None else _picture(named, media_type, data, images=images)


def _bytes(named: Named) -> bytes | Unattached:
    status = named.path.stat()
    if not stat.S_ISREG(status.st_mode):
        return Unattached(f"@{named.shown} is no file and is not attached")
    if status.st_size > READABLE_BYTES:
        return Unattached(f"@{named.shown} has {status.st_size:,} bytes, too many to attach; name a smaller file")
    with named.path.open("rb") as file:
        return file.read(READABLE_BYTES)


def _picture(named: Named, media_type: ImageType, data: bytes, *, images: bool) -> list[Text | Image] | Unattached:
    if not images:
        return Unattached(f"@{named.shown} is a picture, which this model cannot see; it is not attached")
    if len(data) > IMAGE_BYTES:
        return Unattached(f"@{named.shown} has {len(data):,} bytes; pictures of at most {IMAGE_BYTES:,} are attached")
    return [Text(f"{ATTACHED}{named.shown}"), Image(media_type, data)]


def _text(named: Named, data: bytes, clean: Callable[[str], str]) -> list[Text | Image] | Unattached:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unattached(f"@{named.shown} is no text and no picture (png, jpeg, gif, webp); it is not attached")
    if "\0" in text[:SNIFFED_BYTES]:
        return Unattached(f"@{named.shown} is a binary file and is not attached")
    if named.first:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[named.first - 1 : named.last])
        if not text:
            return Unattached(f"@{named.shown} is outside the file's {len(lines)} lines; it is not attached")
    return [Text(f"{ATTACHED}{named.shown}\n{shortened(clean(text), TEXT_LIMIT)}")]


def _listing(named: Named) -> str:
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in named.path.iterdir())
    more = [f"... and {len(names) - ENTRIES} more"] if len(names) > ENTRIES else []
    return "\n".join([f"{ATTACHED}the names in {named.shown}", *names[:ENTRIES], *more])


def _image_type(data: bytes) -> ImageType | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
