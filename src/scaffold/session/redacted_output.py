"""Telling without secrets: what people, programs and logs are told of a session."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta, RetryWait, StreamReset, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.reporter import Reporter

HELD_WORDS = 2
"""Words at the end of what was heard that wait for more: a secret that comes in pieces, and the word before it."""
MAX_HELD_CHARACTERS = 4_000
"""What is longer without a space is told: no secret is, and somebody waits for it."""
_KEY = "-----BEGIN "
_KEY_END = re.compile(r"-----END [A-Z0-9 ]*-----")
_KEY_CHARACTERS = 20_000


class StreamRedactor:
    """Words that come in pieces, told on without the secrets in them.

    The last words are held back until it is known that they are no beginning of a secret. A private key is held back
    until it is whole.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def take(self, piece: str) -> str:
        """Take the next piece, and return what can be told by now; empty if that is nothing."""
        self._held += piece
        end = self._safe_end()
        told, self._held = self._held[:end], self._held[end:]
        return self._redactor.clean(told)

    def end(self) -> str:
        """Return the rest: nothing comes any more."""
        told, self._held = self._held, ""
        return self._redactor.clean(told)

    def forget(self) -> None:
        """Drop what is held back: it is void."""
        self._held = ""

    def _safe_end(self) -> int:
        words = self._held.rsplit(maxsplit=HELD_WORDS)
        end = len(words[0]) if len(words) > HELD_WORDS else 0
        key = self._held.rfind(_KEY)
        if key >= 0 and len(self._held) - key < _KEY_CHARACTERS:
            closed = _KEY_END.search(self._held, key)
            return end if closed and closed.end() <= end else min(key, end)
        return end if len(self._held) <= MAX_HELD_CHARACTERS else len(self._held)


class RedactingReporter:
    """A `Reporter` that tells another one everything but secrets, while the words come and afterwards."""

    def __init__(self, inner: Reporter, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor
        self._text = StreamRedactor(redactor)
        self._thought = StreamRedactor(redactor)
        self.for_people = inner.for_people

    def session(self, **fields: str) -> None:
        """Pass the beginning on."""
        self._inner.session(**self._redactor.clean_all(fields))

    def hear(self, delta: Delta) -> None:
        """Pass on what of the words is safe to be told."""
        match delta:
            case TextDelta(text=text):
                self._flow(self._thought.end, ThinkingDelta)
                self._flow(lambda: self._text.take(text), TextDelta)
            case ThinkingDelta(text=text):
                self._flow(self._text.end, TextDelta)
                self._flow(lambda: self._thought.take(text), ThinkingDelta)
            case StreamReset(reason=reason):
                self._text.forget()
                self._thought.forget()
                self._inner.hear(StreamReset(self._redactor.clean(reason)))
            case RetryWait(seconds=seconds, reason=reason):
                self._inner.hear(RetryWait(seconds, self._redactor.clean(reason)))
            case ToolCallDelta():
                self._finish()
                self._inner.hear(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Pass on what was said and done."""
        self._finish()
        self._inner.note(kind, **self._redactor.clean_all(fields))

    def result(self, shape: Mapping[str, object]) -> None:
        """Pass the end on."""
        self._finish()
        self._inner.result(self._redactor.clean_all(shape))

    def _finish(self) -> None:
        self._flow(self._thought.end, ThinkingDelta)
        self._flow(self._text.end, TextDelta)

    def _flow(self, told: Callable[[], str], kind: type[TextDelta] | type[ThinkingDelta]) -> None:
        if words := told():
            self._inner.hear(kind(words))
