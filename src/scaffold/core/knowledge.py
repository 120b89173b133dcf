"""Knowledge: pieces of text that can be searched by words, by vector and by time, and where each of them comes from."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NewType

from msgspec import Struct

ChunkId = NewType("ChunkId", str)
DocumentId = NewType("DocumentId", str)
CollectionName = NewType("CollectionName", str)
MEMORIES = CollectionName("long_term_memory")
"""The collection of what agents and people remember."""
LEARNINGS = CollectionName("learnings")
"""The collection of what earlier work showed; only the code of learnings changes it."""
DOCUMENTS = CollectionName("documents")
"""The collection of documents, unless another one is named."""
CAPACITIES: Mapping[CollectionName, int] = {MEMORIES: 100_000, LEARNINGS: 100_000, DOCUMENTS: 10_000}
"""How many chunks a built-in collection holds."""
ChunkState = Literal["unconfirmed", "active", "superseded", "pending"]
"""Noted, but nothing has confirmed it yet | counts | another chunk has taken its place | it is of a new version of a
document, which takes the place of the former one once it is complete."""
DocumentState = Literal["reading", "read"]
"""Parts of it are not stored yet | all of it is."""
OF_ATTEMPT = "attempt:"
"""The beginning of the source of what the agent of an attempt noted; its id follows."""
DECIDED_BY = "decided_by"
"""The field of `meta` that says who decided about the state; then no outcome changes it."""
NOTED_IN = "noted_in"
"""The field of `meta` of what an agent stored in the user's own database: the folder where it did. Until the user
confirms it, agents are told it there alone, since whatever an agent has read may speak through it."""
TRACES_LEFT = "Traces may be left in the database until no other process reads it and something is forgotten again."
"""The message after a deletion that could not overwrite every copy of the text."""


class Collection(Struct, frozen=True, kw_only=True):
    """A set of chunks that is searched together; its vectors all have the same model and dimension."""

    name: CollectionName
    model: str = ""
    """The embedding model; empty for a collection without vectors, or whose vectors the caller computes."""
    dimension: int = 0
    """How many numbers a vector has; 0 until the first vector is added."""
    capacity: int
    created_at: datetime

    @property
    def has_given_vectors(self) -> bool:
        """Whether vectors come with the chunks, instead of being computed from their texts."""
        return not self.model and self.dimension > 0


class Span(Struct, frozen=True):
    """Where a chunk is in its document: characters from `start` up to, not including, `end`."""

    start: int = 0
    end: int = 0
    page: int = 0
    """The page on which it starts, from 1; 0 for a document without pages."""


class Document(Struct, frozen=True, kw_only=True):
    """A file whose text is stored in chunks, and how far it has been read."""

    id: DocumentId
    collection: CollectionName
    name: str
    """How it is shown, e.g. its path in the repository."""
    source: str
    """The source it was read from, which identifies other versions of it."""
    sha256: str
    """Of its content, and of how it is read: with another one, it is another version."""
    state: DocumentState = "reading"
    position: int = 0
    """The last page that is stored, or for a document without pages, its last character."""
    length: int = 0
    """How many pages or characters it has; 0 until that is known."""
    missing: Mapping[str, str] = {}
    """Unreadable parts: the pages of each problem, e.g. `{"is empty": "3-5,9"}`."""
    created_at: datetime


class Chunk(Struct, frozen=True, kw_only=True):
    """A piece of text that is found as a whole."""

    id: ChunkId
    collection: CollectionName
    text: str
    title: str = ""
    """The headings above it, or the name of the function that it defines; searched with the text."""
    sha256: str
    """A hash in hex; of texts with the same hash a collection keeps one."""
    document: DocumentId | None = None
    span: Span = Span()
    source: str = ""
    """Who said so: `user`, `session:ID`, `attempt:ID` or `file:NAME`."""
    meta: Mapping[str, str] = {}
    state: ChunkState = "active"
    valid_from: datetime
    valid_until: datetime | None = None
    """When it was superseded; None as long as it counts."""
    superseded_by: ChunkId | None = None
    created_at: datetime
    seq: int = 0
    """The number of the change that stored it: later ones are larger. 0 before it is stored."""

    @property
    def place(self) -> tuple[DocumentId | None, int]:
        """The key under which a text is stored once: parts of a document may be equal."""
        return self.document, self.span.start


class ChunkFilter(Struct, frozen=True, kw_only=True):
    """Which chunks of a collection a search looks at: those that fit all that is set."""

    states: tuple[ChunkState, ...] = ("active", "unconfirmed")
    document: DocumentId | None = None
    source: str = ""
    """The beginning of their source, e.g. `attempt:`."""
    since: datetime | None = None
    until: datetime | None = None
    """Stored from `since` on, and before `until`."""
    meta: Mapping[str, str] = {}
    """Fields of `meta` that must have exactly these values."""
    told_in: str | None = None
    """The folder in which an agent is told: of what agents noted about the user, only what they noted there."""
