"""Files stored as documents: what the user's command does, and says."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import IndexFull, ScaffoldError, UsageError
from scaffold.core.knowledge import DOCUMENTS, CollectionName, Document
from scaffold.core.printable_text import count_of, printable
from scaffold.host.wall_clock import WallClock
from scaffold.memory.documents.ingestion import Ingested, Ingestion, Progress
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.parts import DocumentReader, ReadingOptions
from scaffold.memory.documents.reader_sandbox import reader_place
from scaffold.memory.documents.source_files import opened_file
from scaffold.memory.notes import MemoryScope
from scaffold.session.memory.answer import NOUNS, MemoryAnswer
from scaffold.session.memory.document_commands import document_json, document_name, has_pages, label, missing_lines
from scaffold.session.memory.embedding import MemoryAccess

VECTORS_AT_ONCE = 256  # after so many vectors it is said how many there are


class IngestRequest(Struct, frozen=True, kw_only=True):
    """Which files become documents, where, and how."""

    files: Sequence[Path]
    index: CollectionName = DOCUMENTS
    scope: MemoryScope | None = None
    options: ReadingOptions = ReadingOptions()
    vectors: bool = True
    """Whether all vectors of the index are computed that are missing."""


class Reporting(Struct, frozen=True):
    """Callbacks for progress."""

    on_progress: Callable[[Progress], None]
    on_stored: Callable[[str], None]
    """Called with what became of a document, in lines."""
    on_vectors: Callable[[int], None]
    """Called with the number of vectors that were computed so far."""


class _NotStored(Struct, frozen=True):
    name: str
    error: ScaffoldError


async def ingested(
    library: DocumentLibrary, access: MemoryAccess, request: IngestRequest, reporting: Reporting
) -> MemoryAnswer:
    """Store files as documents, then their vectors; UsageError at the end if a file could not be stored."""
    if (held := NOUNS.get(request.index)) is not None:
        raise UsageError(f"{request.index} holds {held}, not documents", "Name another index.")
    scope = request.scope or library.usual_scope
    done: list[Ingested] = []
    failed: list[_NotStored] = []
    async with reader_place() as place:
        reader = DocumentReader(place, access.redactor)
        ingestion = Ingestion(
            library.database(scope), request.index, reader, clock=WallClock(), on_progress=reporting.on_progress
        )
        for path in request.files:
            name = document_name(path, scope, access.cwd)
            try:
                with opened_file(path, name) as opened:
                    done.append(await ingestion.add(opened, request.options))
                    reporting.on_stored("\n".join(_ingested_lines(done[-1], request.options)))
            except UsageError as error:
                failed.append(_NotStored(name, error))
                if isinstance(error, IndexFull):
                    break
    vectors = 0
    while done and request.vectors and (count := await library.fill(scope, request.index, most=VECTORS_AT_ONCE)):
        vectors += count
        reporting.on_vectors(vectors)
    if failed and not done and len(failed) == 1:
        raise failed[0].error
    return _ingest_answer(done, failed, vectors, by_meaning=library.has_vectors(scope))


def _ingest_answer(
    done: Sequence[Ingested], failed: Sequence[_NotStored], vectors: int, *, by_meaning: bool
) -> MemoryAnswer:
    lines = [f"{printable(each.name)}: not stored: {printable(each.error.what)}" for each in failed]
    lines += [f"  {line}" for line in dict.fromkeys(printable(each.error.fix) for each in failed)]
    if len(done) > 1:
        lines.append(f"{count_of(len(done), 'document')}, {count_of(sum(each.chunks for each in done), 'chunk')}")
    if vectors:
        lines.append(f"{count_of(vectors, 'vector')} added")
    elif done and not by_meaning:
        lines.append("Found by words; with the extra `memory` also by meaning.")
    data = {
        "documents": [
            {**document_json(each.document), "chunks": each.chunks, "outcome": each.outcome, "resumed": each.resumed}
            for each in done
        ],
        "failed": [{"name": each.name, "error": each.error.what} for each in failed],
        "vectors": vectors,
    }
    return MemoryAnswer("\n".join(lines), data)


def _ingested_lines(each: Ingested, options: ReadingOptions) -> Iterator[str]:
    document = each.document
    pages = f"{pages_of(document, options)}, " if has_pages(document) else ""
    went_on = ", from where it was" if each.resumed and each.outcome != "unchanged" else ""
    yield f"{label(document)}: {each.outcome}{went_on}: {pages}{count_of(each.chunks, 'chunk')}  {document.id}"
    yield from (f"  {line}" for line in missing_lines(document.missing))


def pages_of(document: Document, options: ReadingOptions) -> str:
    """Return how many pages of a document were to be read."""
    count = options.pages.count(document.length)
    return count_of(count, "page") if count == document.length else f"{count:,} of {count_of(document.length, 'page')}"
