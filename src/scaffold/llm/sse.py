"""Server-sent events, read as their bytes come (WHATWG HTML, "Interpreting an event stream")."""

from scaffold.core.errors import ModelTrouble
from scaffold.llm.codec import Event
from scaffold.llm.trouble import unreadable

LONGEST_EVENT = 32 * 2**20
"""Bytes; no reply needs more in one event, so whoever sends more would fill our memory."""

_BOM = b"\xef\xbb\xbf"


class Events:
    """Reads one stream; however its bytes are cut, the events are the same.

    `id` and `retry` are ignored, since a stream that broke is repeated whole. Bytes that are not UTF-8 are a trouble
    and not replaced: what we read may end up in files.
    """

    def __init__(self, *, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._line: list[bytes] = []
        self._line_size = 0
        self._name = b""
        self._data: list[bytes] = []
        self._data_size = 0
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that end within `chunk`, in order; what the stream's end cuts off is never given.

        Raises ModelTrouble, transient, on an event that is too long or not UTF-8.
        """
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._line:
            lines[0] = b"".join([*self._line, lines[0]])
            self._line, self._line_size = [], 0
        events = self._read(lines)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > self._longest:
                raise self._too_long()
        return events

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """Return `chunk` with each CR LF, also one cut in two, and each CR become LF."""
        if not chunk:
            return chunk
        whole = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r")
        return whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, lines: list[bytes]) -> list[Event]:
        events = []
        if max(map(len, lines), default=0) > self._longest:
            raise self._too_long()
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line.startswith(b"data:"):  # nearly all of them
                self._hold(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                self._other(line)
            else:
                if self._data:
                    events.append(self._event())
                self._name = b""
        return events

    def _other(self, line: bytes) -> None:
        """Take a field that is not plain data; comments and fields nobody knows mean nothing."""
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._hold(b"")

    def _hold(self, value: bytes) -> None:
        self._data.append(value)
        self._data_size += len(value)
        if self._data_size > self._longest:
            raise self._too_long()

    def _event(self) -> Event:
        try:
            event = Event(self._name.decode(), b"\n".join(self._data).decode())
        except UnicodeDecodeError as error:
            raise unreadable(f"an event is not UTF-8 text ({error.reason})") from error
        self._data, self._data_size = [], 0
        return event

    def _too_long(self) -> ModelTrouble:
        return unreadable(f"an event has more than {self._longest:,} bytes")
