"""Store documents in pieces that can be searched. Any process may be killed at any moment: the next one goes on."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.errors import IndexFull, StaleFence, UsageError
from scaffold.core.knowledge import Chunk, ChunkId, ChunkState, CollectionName, Document, DocumentId, Span
from scaffold.host.random_ids import new_id
from scaffold.memory.documents.parts import DocumentPart, DocumentReader, ReadingOptions
from scaffold.memory.documents.pdf_reader import check_pdf
from scaffold.memory.documents.source_files import PAGES_OF, SOURCE, OpenedFile, content_hash
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.knowledge.collections import capacity_of
from scaffold.store.user_store import UserStore

Outcome = Literal["added", "replaced", "unchanged"]
SPLITTING = 1
"""The version of the splitting: with another number, the next ingestion reads every document again."""
CHUNK_ID_CHARS = 12
MOST_TAKEOVERS = 1_000
"""How often one process continues where another one has stored more meanwhile."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a document is stored."""

    document: Document
    unit: Literal["page", "character"]
    chunks: int
    """How many are stored since this process began."""


class Ingested(Struct, frozen=True, kw_only=True):
    """What became of a document."""

    document: Document
    outcome: Outcome
    chunks: int
    """How many chunks it has."""
    resumed: bool = False
    """Whether a part of it was stored already."""


class Ingestion:
    """Stores documents in one index of a database. Several processes may do so with the same file."""

    def __init__(
        self,
        database: Store | UserStore,
        index: CollectionName,
        reader: DocumentReader,
        *,
        clock: TimeSource,
        on_progress: Callable[[Progress], None],
        noted: Mapping[str, str] = {},
    ) -> None:
        """Prepare to store; each chunk gets the fields `noted` of `meta`."""
        self._database = database
        self._index = index
        self._reader = reader
        self._clock = clock
        self._on_progress = on_progress
        self._noted = noted

    async def add(self, opened: OpenedFile, options: ReadingOptions) -> Ingested:
        """Store a document, or the rest of it; an unchanged one is left as it is.

        Until a new version is complete, searches find the former one. UsageError if it cannot be read, IndexFull if it
        does not fit.
        """
        self._require_texts()
        if opened.is_pdf:  # before the hash, which reads the whole file
            check_pdf(opened.file, opened.name)
        version = opened.version
        # The same as long as the content, and how it is read, is.
        how = (str(options.pages), str(options.size.most), str(SPLITTING))
        parts = (content_hash(opened.file), *how, *self._noted.values())
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        # Some pages of a file are another document than all of them.
        source = f"{SOURCE}{opened.name}" + ("" if options.pages.is_all else f"{PAGES_OF}{options.pages}")
        versions = self._database.knowledge.documents.for_source(self._index, source)
        known = next((each for each in versions if each.sha256 == digest), None)
        if known is not None and known.state == "read":
            return self._ingested_document(known, "unchanged")
        if known is None:
            self._require_room(opened, options, source)
        outcome: Outcome = "replaced" if self._former_versions(source) else "added"
        document = self._begin_version(opened, source, digest)
        resumed = document.position > 0
        for _ in range(MOST_TAKEOVERS):
            try:
                document = await self._read_missing(opened, options, document)
                _require_version(opened, version)
                return structs.replace(
                    self._ingested_document(self._replace_former(document), outcome), resumed=resumed
                )
            except UsageError:
                self._drop_if_empty(document)
                raise
            except StaleFence:
                document = self._taken_over(document)
                if document.state == "read":
                    return self._ingested_document(document, outcome)
        raise UsageError(f"other processes are reading {opened.name}, too", "Repeat the command.")

    def _require_texts(self) -> None:
        """Raise UsageError for an index whose vectors come with its items."""
        stored = self._database.knowledge.collections.get(self._index)
        if stored is not None and stored.has_given_vectors:
            raise UsageError(
                f"the index {self._index} stores vectors computed elsewhere and cannot take documents",
                "Choose another index.",
            )

    async def _read_missing(self, opened: OpenedFile, options: ReadingOptions, document: Document) -> Document:
        chunks, start = 0, self._database.knowledge.documents.end(document.id) + 1
        async for part in self._reader.parts(opened, options, document, start):
            document = self._store_part(document, part)
            chunks += len(part.pieces)
            self._on_progress(Progress(document=document, unit="page" if opened.is_pdf else "character", chunks=chunks))
        return document

    def _store_part(self, document: Document, part: DocumentPart) -> Document:
        knowledge = self._database.knowledge
        after = structs.replace(document, position=part.position, length=part.length, missing=part.missing)
        with self._database.transaction(durable=True):
            # Before the chunks: another process may have stored the same ones.
            knowledge.documents.move(document, after)
            if len(part.pieces) > self._room_left(document.source):
                done = f"up to page {document.position:,} of {document.length:,}" if document.position else "not"
                raise self._index_full(f"{document.name} is {done} stored")
            state: ChunkState = "pending" if self._former_versions(document.source) else "active"
            now = self._clock.now()
            chunks = [
                Chunk(
                    id=ChunkId(new_id(CHUNK_ID_CHARS)),
                    collection=document.collection,
                    text=each.piece.text,
                    title=each.piece.title,
                    sha256=hashlib.sha256(each.piece.text.encode()).hexdigest(),
                    document=document.id,
                    span=Span(each.piece.start, each.piece.end, each.page),
                    source=f"{SOURCE}{document.name}",
                    meta=self._noted,
                    state=state,
                    valid_from=now,
                    created_at=now,
                )
                for each in part.pieces
            ]
            knowledge.chunks.add(chunks)
        return after

    def _replace_former(self, document: Document) -> Document:
        """Let the new version take the place of the former ones, in one transaction."""
        documents = self._database.knowledge.documents
        after = structs.replace(document, state="read")
        with self._database.transaction(durable=True):
            for each in self._former_versions(document.source):
                documents.forget(each.id)
            documents.move(document, after)
            documents.activate(document.id)
        return after

    def _begin_version(self, opened: OpenedFile, source: str, digest: str) -> Document:
        """Return the document of which a part may be stored; parts of other versions that were begun are deleted."""
        knowledge = self._database.knowledge
        with self._database.transaction(durable=True):
            knowledge.collections.ensure(self._index)
            begun = None
            for each in knowledge.documents.for_source(self._index, source):
                if each.sha256 == digest:
                    begun = each
                elif each.state == "reading":
                    knowledge.documents.forget(each.id)
            if begun is not None:
                return begun
            document = Document(
                id=DocumentId(new_id()),
                collection=self._index,
                name=opened.name,
                source=source,
                sha256=digest,
                created_at=self._clock.now(),
            )
            knowledge.documents.add(document)
        return document

    def _drop_if_empty(self, document: Document) -> None:
        # A document of which nothing could be stored would only be in the way.
        documents = self._database.knowledge.documents
        with self._database.transaction():
            stored = documents.get(document.id)
            if stored is not None and stored.state == "reading" and not stored.position:
                documents.forget(document.id)

    def _taken_over(self, document: Document) -> Document:
        """Return the document as another process has left it; UsageError if it has deleted it."""
        now = self._database.knowledge.documents.get(document.id)
        if now is None:
            raise UsageError(
                f"another process deleted {document.name}, or read another version of it", "Repeat the command."
            )
        return now

    def _former_versions(self, source: str) -> list[Document]:
        versions = self._database.knowledge.documents.for_source(self._index, source)
        return [each for each in versions if each.state == "read"]

    def _require_room(self, opened: OpenedFile, options: ReadingOptions, source: str) -> None:
        """Raise IndexFull if it is known before anything is stored that the document does not fit."""
        room = self._room_left(source)
        pieces = self._reader.count_pieces(opened, options, most=room + 1)
        if room <= 0 or (pieces is not None and pieces > room):
            needs = f"has more than {room:,} and " if room > 0 else ""
            raise self._index_full(f"{opened.name} {needs}is not stored")

    def _room_left(self, source: str) -> int:
        """Return how many chunks the index has room for, once former versions of a document are gone."""
        knowledge = self._database.knowledge
        former = sum(knowledge.documents.chunks(each.id) for each in self._former_versions(source))
        return self._index_capacity() - knowledge.chunks.count(self._index) + former

    def _index_capacity(self) -> int:
        stored = self._database.knowledge.collections.get(self._index)
        return capacity_of(self._index) if stored is None else stored.capacity

    def _index_full(self, consequence: str) -> IndexFull:
        count = self._database.knowledge.chunks.count(self._index)
        return IndexFull(
            f"the index {self._index} has {count:,} of at most {self._index_capacity():,} chunks: {consequence}",
            "Make room (`memory documents` shows what is there, `memory forget-document ID` deletes one), or use "
            "another index with `--index NAME`; then repeat the command, which goes on where it was.",
        )

    def _ingested_document(self, document: Document, outcome: Outcome) -> Ingested:
        return Ingested(
            document=document, outcome=outcome, chunks=self._database.knowledge.documents.chunks(document.id)
        )


def _require_version(opened: OpenedFile, version: tuple[int, int, int]) -> None:
    if opened.version != version:
        raise UsageError(f"{opened.name} was changed while it was read", "Repeat the command.")
