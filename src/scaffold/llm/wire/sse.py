"""An incremental parser for server-sent events (WHATWG HTML, "Interpreting an event stream")."""

from collections.abc import Iterable

from scaffold.core.conversation import DeltaHandler
from scaffold.core.errors import ModelError
from scaffold.llm.wire.codec import ReplyReader, ServerSentEvent
from scaffold.llm.wire.provider_errors import unreadable_reply

MAX_EVENT_BYTES = 32 * 2**20
"""A memory limit; no real event is larger."""
_BOM = b"\xef\xbb\xbf"


_KEEP_ALIVES = frozenset({"ping", "keepalive", "keep-alive", "heartbeat"})


def is_keep_alive(event: ServerSentEvent) -> bool:
    """Return whether an event only shows that the connection is alive; comments give no event at all."""
    kind = event.name or event.data.strip().removeprefix('{"type":').removesuffix("}").strip(' "')
    return kind in _KEEP_ALIVES


def read_events(reader: ReplyReader, events: Iterable[ServerSentEvent], on_delta: DeltaHandler) -> bool:
    """Give the deltas of the events to `on_delta`; return whether one of them was more than a keep-alive."""
    progress = False
    for event in events:
        if not is_keep_alive(event):
            progress = True
            for delta in reader.feed(event):
                on_delta(delta)
    return progress


class SseDecoder:
    """Parses one stream; the events do not depend on how the bytes are split into chunks.

    `id` and `retry` are ignored, because a broken stream is repeated as a whole. Invalid UTF-8 is an error instead of
    being replaced: the text may end up in files.
    """

    def __init__(self, *, longest: int = MAX_EVENT_BYTES) -> None:
        self._longest = longest
        self._line: list[bytes] = []
        self._line_size = 0
        self._name = b""
        self._data: list[bytes] = []
        self._data_size = 0
        self._at_start = True
        self._after_cr = False

    @property
    def unfinished(self) -> int:
        """The bytes received of an event that is not complete."""
        return self._line_size + self._data_size

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events completed by `chunk`, in order.

        Raises ModelError, transient, if an event is too long or not UTF-8.
        """
        # Few servers send CR, so most chunks need no copy.
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._line:
            lines[0] = b"".join([*self._line, lines[0]])
            self._line, self._line_size = [], 0
        events = self._read_lines(lines)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > self._longest:
                raise self._too_long()
        return events

    def end(self) -> list[ServerSentEvent]:
        """Return the last event, if nothing but the empty line after it is missing at the end of the stream."""
        return [event for event in self.feed(b"\n\n") if event.data.rstrip().endswith(("}", "]"))]

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """Return `chunk` with each CR LF (even split over two chunks) and each CR replaced by LF."""
        if not chunk:
            return chunk
        whole = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r")
        return whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read_lines(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events = []
        if max(map(len, lines), default=0) > self._longest:
            raise self._too_long()
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line.startswith(b"data:"):  # the common case
                self._hold_data(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                # Comments and unknown fields are ignored.
                field, _, value = line.partition(b":")
                if field == b"event":
                    self._name = value.removeprefix(b" ")
                elif field == b"data":
                    self._hold_data(b"")
            else:
                if self._data:
                    events.append(self._make_event())
                self._name = b""
        return events

    def _hold_data(self, value: bytes) -> None:
        self._data.append(value)
        self._data_size += len(value)
        if self._data_size > self._longest:
            raise self._too_long()

    def _make_event(self) -> ServerSentEvent:
        try:
            event = ServerSentEvent(self._name.decode(), b"\n".join(self._data).decode())
        except UnicodeDecodeError as error:
            raise unreadable_reply(f"an event is not UTF-8 text ({error.reason})") from error
        self._data, self._data_size = [], 0
        return event

    def _too_long(self) -> ModelError:
        return unreadable_reply(f"an event has more than {self._longest:,} bytes")
