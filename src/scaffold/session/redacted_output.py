"""Removes secrets from what users, programs and logs see of a session."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta, RetryWait, StreamReset, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.reporter import Reporter

HELD_WORDS = 2  # words held back at the end of a stream: a secret may arrive in pieces, and the word before it names it
# A longer text without a space is passed on: no secret is that long, and the user waits for it.
MAX_HELD_CHARACTERS = 4_000
_KEY = "-----BEGIN "
_KEY_END = re.compile(r"-----END [A-Z0-9 ]*-----")
_KEY_CHARACTERS = 20_000


class StreamRedactor:
    """Removes secrets from text that arrives in pieces.

    The last words are held back, as they may be the beginning of a secret; a private key until it is complete.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def take(self, piece: str) -> str:
        """Take the next piece and return the text that is safe by now; may be empty."""
        self._held += piece
        end = self._safe_end()
        safe, self._held = self._held[:end], self._held[end:]
        return self._redactor.clean(safe)

    def end(self) -> str:
        """Return the rest: the stream has ended."""
        rest, self._held = self._held, ""
        return self._redactor.clean(rest)

    def forget(self) -> None:
        """Discard the buffered text, because the reply is invalid."""
        self._held = ""

    def _safe_end(self) -> int:
        words = self._held.rsplit(maxsplit=HELD_WORDS)
        end = len(words[0]) if len(words) > HELD_WORDS else 0
        key = self._held.rfind(_KEY)
        if key >= 0 and len(self._held) - key < _KEY_CHARACTERS:
            closed = _KEY_END.search(self._held, key)
            # A private key has many words; until its end line is here, nothing from its first line on is safe.
            return end if closed and closed.end() <= end else min(key, end)
        return end if len(self._held) <= MAX_HELD_CHARACTERS else len(self._held)


class RedactingReporter:
    """A `Reporter` that passes everything but secrets to another one, streamed text included."""

    def __init__(self, inner: Reporter, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor
        self._text = StreamRedactor(redactor)
        self._thought = StreamRedactor(redactor)
        self.for_people = inner.for_people

    def session(self, **fields: str) -> None:
        """Pass on the start."""
        self._inner.session(**self._redactor.clean_all(fields))

    def on_delta(self, delta: Delta) -> None:
        """Pass on the text that is safe by now."""
        match delta:
            case TextDelta(text=text):
                self._stream_of(self._thought.end, ThinkingDelta)
                self._stream_of(lambda: self._text.take(text), TextDelta)
            case ThinkingDelta(text=text):
                self._stream_of(self._text.end, TextDelta)
                self._stream_of(lambda: self._thought.take(text), ThinkingDelta)
            case StreamReset(reason=reason):
                self._text.forget()
                self._thought.forget()
                self._inner.on_delta(StreamReset(self._redactor.clean(reason)))
            case RetryWait(seconds=seconds, reason=reason):
                self._inner.on_delta(RetryWait(seconds, self._redactor.clean(reason)))
            case ToolCallDelta():
                self._finish_streams()
                self._inner.on_delta(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Pass on the entry."""
        self._finish_streams()
        self._inner.note(kind, **self._redactor.clean_all(fields))

    def result(self, shape: Mapping[str, object]) -> None:
        """Pass on the end."""
        self._finish_streams()
        self._inner.result(self._redactor.clean_all(shape))

    def _finish_streams(self) -> None:
        self._stream_of(self._thought.end, ThinkingDelta)
        self._stream_of(self._text.end, TextDelta)

    def _stream_of(self, text: Callable[[], str], kind: type[TextDelta] | type[ThinkingDelta]) -> None:
        if words := text():
            self._inner.on_delta(kind(words))
