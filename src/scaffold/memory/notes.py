"""What may be remembered, and how two memories relate: checks of texts alone, no model and no database."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import Chunk
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.plan.learning.words import is_negative, similarity, words_of
from scaffold.policy.secret.redaction import Redactor

MAX_CHARS = 2_000
"""A memory says one thing; what is longer is a document."""
CONTRADICTING = 0.6
"""From which similarity on two memories are about the same thing."""
DIFFERING = 0.7
"""The same where only their numbers differ."""
SUBJECT_WORDS = 3
"""A number among the first words tells things apart that are counted: `step 1`, `Python 3.11`."""
RECALLED_KEY = "memory"
"""The name of the id in a recalled memory, by which the text is known when an agent wants it stored again."""

MemoryScope = Literal["project", "user"]
"""Of this repository, in its database | of the user in all folders, in the user's own."""
MemoryType = Literal["fact", "preference", "correction", "procedure"]
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_TOKEN = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")
_SPACE = re.compile(r"\s+")
_RECALLED = re.compile(rf'"{RECALLED_KEY}":\s*"[a-z0-9]+"')


class Memory(Struct, frozen=True):
    """A memory, and in which of the two databases it is."""

    chunk: Chunk
    scope: MemoryScope

    @property
    def id(self) -> str:
        """Its id."""
        return self.chunk.id

    @property
    def type(self) -> str:
        """What kind of statement it is."""
        return self.chunk.meta.get("type", "fact")


class Remembered(Struct, frozen=True, kw_only=True):
    """What became of a text that was to be remembered."""

    memory: Memory
    is_new: bool
    """False if the same was known already."""
    contradicts: tuple[Memory, ...] = ()
    """Memories about the same thing that say something else; both count until one of them is superseded."""
    superseded: Memory | None = None


def checked(text: str, redactor: Redactor) -> str:
    """Return the text as it is stored; UsageError if it is empty, too long, has a secret, or was recalled."""
    if len(text) > MAX_CHARS:
        raise UsageError(
            f"the text is too long for a memory: {len(text):,} characters, at most {MAX_CHARS:,}",
            "Remember one thing at a time, each in a sentence or two.",
        )
    plain = utf8_safe(text).replace("\0", " ").replace("\r\n", "\n")
    # Composed letters, so that equal texts have equal hashes.
    content = printable(unicodedata.normalize("NFC", plain)).strip()
    if not any(each.isalnum() for each in content):
        raise UsageError("there is nothing to remember: the text has no words", "Say in a sentence what to remember.")
    if _RECALLED.search(content):
        raise UsageError("the text is a memory that was recalled: it is stored already", "Say only what is new.")
    if redactor.clean(content) != content:
        raise UsageError(
            "the text has a secret in it, which is not remembered", "Say where the secret is kept, not what it is."
        )
    return content


def fingerprint(content: str) -> str:
    """Return the hash of a text that is the same for other white space and another end of the sentence."""
    plain = _SPACE.sub(" ", content).strip().rstrip(".!").rstrip()
    # Only the first letter: elsewhere its case may be that of a name.
    return hashlib.sha256((plain[:1].casefold() + plain[1:]).encode()).hexdigest()


def contradict(one: str, other: str) -> bool:
    """Return whether two texts are about the same thing and one negates it, or they name different numbers.

    A guess from words: it is shown to who can tell, and changes nothing by itself.
    """
    alike = similarity(_without_numbers(one), _without_numbers(other))
    if alike < CONTRADICTING:
        return False
    if is_negative(one) != is_negative(other) or alike < DIFFERING:
        return is_negative(one) != is_negative(other)
    words = [_TOKEN.findall(each.casefold()) for each in (one, other)]
    for place, (first, second) in enumerate(zip(*words, strict=False)):
        if first != second:  # a number among the first words is part of what they are about
            return place >= SUBJECT_WORDS and all(_NUMBER.fullmatch(each) for each in (first, second))
    return False


def contradictions(memory: Memory, others: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return those of the other memories that seem to contradict this one."""
    text = memory.chunk.text
    return tuple(each for each in others if each.id != memory.id and contradict(text, each.chunk.text))


def scope_of(word: str) -> MemoryScope | None:
    """Return the scope of this name; None if there is none."""
    return next((each for each in get_args(MemoryScope) if each == word), None)


def type_of(word: str) -> MemoryType:
    """Return the type of this name; a fact if there is none."""
    kind: MemoryType = next((each for each in get_args(MemoryType) if each == word), "fact")
    return kind


def first_line(text: str, most: int) -> str:
    """Return a memory as one line of at most so many characters."""
    line = _SPACE.sub(" ", text).strip()
    return line if len(line) <= most else f"{line[: max(most - 1, 0)]}…"


def _without_numbers(text: str) -> Sequence[str]:
    return words_of(_NUMBER.sub(" ", text))
