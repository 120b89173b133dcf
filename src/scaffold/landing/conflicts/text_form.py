"""Read the bytes of a file as lines of text, and write a merge in the form that its versions have. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.landing.conflicts.not_mergeable import NotMergeable

MAX_BYTES = 2 * 1024 * 1024
"""The largest file that is merged by its contents."""
MARK = "\ufeff"


class TextForm(Struct, frozen=True):
    """What of a file its lines do not tell: a byte order mark, CR LF for line ends, and an end of the last line."""

    mark: bool = False
    crlf: bool = False
    ended: bool = True


def read_text(data: bytes, limit: int = MAX_BYTES) -> tuple[str, TextForm]:
    """Return the text, its lines ending in a newline only, and its form; raise NotMergeable for other files."""
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
    """Return the bytes of a text in this form; raise NotMergeable if UTF-8 cannot write it: JSON can name such text."""
    lines = text if form.ended else text.removesuffix("\n")
    try:
        return ((MARK if form.mark else "") + (lines.replace("\n", "\r\n") if form.crlf else lines)).encode()
    except UnicodeEncodeError as error:
        raise NotMergeable("it would have characters that UTF-8 cannot write") from error


def merged_form(base: TextForm | None, ours: TextForm, theirs: TextForm) -> TextForm:
    """Return the form with the changes of both sides; NotMergeable if both added the file, in different forms."""
    if ours != theirs and base is None:
        raise NotMergeable("both sides add it, with other line ends or another encoding")
    was = base or ours
    return TextForm(*(_either(*each) for each in zip(*map(_fields, (was, ours, theirs)), strict=True)))


def _fields(form: TextForm) -> Sequence[bool]:
    return form.mark, form.crlf, form.ended


def _either(base: bool, ours: bool, theirs: bool) -> bool:
    return theirs if ours == base else ours
