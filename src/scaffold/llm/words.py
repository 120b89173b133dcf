"""A reply's words as they come, thoughts told from the rest."""

from collections.abc import Sequence

from scaffold.core.conversation import Text, TextDelta, Thinking, ThinkingDelta

OPEN, CLOSE = "<think>", "</think>"


class Words:
    """The words of one reply: one text and one train of thought, however they alternate.

    With `tags` the thoughts stand in `<think>...</think>` within the text, and the space around the tags is nobody's.
    Some models are made to think by a prompt that ends in the opening tag: if the first tag is a closing one, all
    before it was a thought, though it was told as text.
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
        """Take more of a thought that the wire names as such."""
        if not words:
            return ()
        self._thoughts.append(words)
        return (ThinkingDelta(words),)

    def text(self, words: str) -> Sequence[TextDelta | ThinkingDelta]:
        """Take more of the text; what may be the beginning of a tag is held back until it is clear."""
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
            deltas += self._tell(before)
            self._turn(tag)
            rest = after
        kept = _beginning_of_tag(rest)
        self._held = rest[len(rest) - kept :]
        return deltas + self._tell(rest[: len(rest) - kept])

    def flush(self) -> Sequence[TextDelta | ThinkingDelta]:
        """Give what was held back: no more comes."""
        held, self._held = self._held, ""
        return self._tell(held)

    @property
    def parts(self) -> tuple[Thinking | Text, ...]:
        """All that came so far, the thought first; what is empty is left out."""
        thought, text = "".join(self._thoughts), "".join(self._text)
        if self._tags:
            thought = thought.strip()
        return (*((Thinking(thought),) if thought else ()), *((Text(text),) if text else ()))

    def _to_tag(self, words: str) -> tuple[str, str, str]:
        """Return what stands before the next tag that counts, the tag, and what follows; no tag if there is none."""
        if self._inside:
            return words.partition(CLOSE)
        opened = words.partition(OPEN)
        closed = words.partition(CLOSE)
        return closed if not self._tagged and len(closed[0]) < len(opened[0]) else opened

    def _turn(self, tag: str) -> None:
        if tag == CLOSE and not self._inside:
            self._thoughts, self._text = [*self._thoughts, *self._text], []
        if tag == OPEN and self._thoughts:
            self._thoughts.append("\n")
        self._inside = tag == OPEN
        self._tagged = self._after_tag = True

    def _tell(self, words: str) -> list[TextDelta | ThinkingDelta]:
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


def _beginning_of_tag(words: str) -> int:
    """Return how many of the last characters may be the beginning of a tag."""
    end = words[words.rfind("<", -len(CLOSE) + 1) :]
    return len(end) if OPEN.startswith(end) or CLOSE.startswith(end) else 0
