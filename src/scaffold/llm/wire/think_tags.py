"""Split a streamed reply into text and thoughts."""

from collections.abc import Sequence

from scaffold.core.conversation import Text, TextDelta, Thinking, ThinkingDelta

OPEN, CLOSE = "<think>", "</think>"


class ThinkTagSplitter:
    """Collects one reply's text and thoughts, which may alternate.

    With `tags` thoughts are in `<think>...</think>` within the text; white space around the tags is dropped. For some
    models the prompt already ends with the opening tag: if the first tag is a closing one, everything before it was a
    thought, although its deltas were sent as text.
    """

    def __init__(self, *, tags: bool) -> None:
        self._tags = tags
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._inside = False
        self._tagged = False
        self._after_tag = False
        self._held = ""

    def thought(self, words: str) -> Sequence[ThinkingDelta]:
        """Add words that the wire marks as a thought; return their deltas."""
        if not words:
            return ()
        self._thoughts.append(words)
        return (ThinkingDelta(words),)

    def text(self, words: str) -> Sequence[TextDelta | ThinkingDelta]:
        """Add words of the text; return their deltas. A possible start of a tag is held back until it is decided."""
        if not words:
            return ()
        if not self._tags:
            self._text.append(words)
            return (TextDelta(words),)
        deltas = []
        rest = self._held + words
        while True:
            before, tag, after = self._to_tag(rest)
            if not tag:
                break
            deltas += self._emit_words(before)
            self._switch_at_tag(tag)
            rest = after
        # Text that may begin a tag waits for the next words.
        end = rest[rest.rfind("<", -len(CLOSE) + 1) :]
        kept = len(end) if OPEN.startswith(end) or CLOSE.startswith(end) else 0
        self._held = rest[len(rest) - kept :]
        return deltas + self._emit_words(rest[: len(rest) - kept])

    def flush(self) -> Sequence[TextDelta | ThinkingDelta]:
        """Return the deltas of held-back words at the end of the text."""
        held, self._held = self._held, ""
        return self._emit_words(held)

    @property
    def parts(self) -> tuple[Thinking | Text, ...]:
        """Everything so far, the thought first; empty parts are omitted."""
        thought, text = "".join(self._thoughts), "".join(self._text)
        if self._tagged:
            thought = thought.strip()
        return (*((Thinking(thought),) if thought else ()), *((Text(text),) if text else ()))

    def _to_tag(self, words: str) -> tuple[str, str, str]:
        """Split at the next relevant tag: (before, tag, after); `tag` is empty if there is none."""
        if self._inside:
            return words.partition(CLOSE)
        opened = words.partition(OPEN)
        closed = words.partition(CLOSE)
        return closed if not self._tagged and len(closed[0]) < len(opened[0]) else opened

    def _switch_at_tag(self, tag: str) -> None:
        if tag == CLOSE and not self._inside:
            # The prompt ended with the opening tag, so all that came before was a thought.
            self._thoughts, self._text = [*self._thoughts, *self._text], []
        if tag == OPEN and self._thoughts:
            self._thoughts.append("\n")
        self._inside = tag == OPEN
        self._tagged = self._after_tag = True

    def _emit_words(self, words: str) -> list[TextDelta | ThinkingDelta]:
        if self._after_tag:
            words = words.lstrip()
        if not words:
            return []
        self._after_tag = False
        if self._inside:
            self._thoughts.append(words)
            return [ThinkingDelta(words)]
        self._text.append(words)
        return [TextDelta(words)]
