"""The user's commands about documents: stored, listed, searched, deleted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.errors import IndexFull, NotInRepository, ScaffoldError, UsageError
from scaffold.core.knowledge import DOCUMENTS, MEMORIES, CollectionName, Document
from scaffold.core.printable_text import count_of, one_line, printable, utf8_safe
from scaffold.git.common_dir import find_top
from scaffold.host.wall_clock import WallClock
from scaffold.memory.documents.files import PDF_SUFFIX, opened_file
from scaffold.memory.documents.ingestion import PAGES_OF, Ingested, Progress
from scaffold.memory.documents.library import DocumentLibrary, FoundPassage, StoredDocument
from scaffold.memory.documents.parts import DocumentReader, ReadingOptions
from scaffold.memory.documents.pdf_reader import in_number
from scaffold.memory.documents.reader_sandbox import reader_place
from scaffold.memory.notes import MemoryScope, first_line
from scaffold.memory.opening import open_databases
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.session.memory.access import MemoryAccess
from scaffold.session.memory.answer import MemoryAnswer

VECTORS_AT_ONCE = 256
"""After so many vectors it is said how many there are."""
MOST_FOUND = 10
SHOWN_CHARS = 160


class IngestRequest(Struct, frozen=True, kw_only=True):
    """Which files become documents, where, and how."""

    files: Sequence[Path]
    index: CollectionName = DOCUMENTS
    scope: MemoryScope | None = None
    options: ReadingOptions = ReadingOptions()


class Reporting(Struct, frozen=True):
    """Who is told how far it is."""

    on_progress: Callable[[Progress], None]
    on_vectors: Callable[[int], None]
    """Called with the number of vectors that were computed so far."""


class _Failed(Struct, frozen=True):
    name: str
    error: ScaffoldError


@contextmanager
def open_library(access: MemoryAccess, *, create: bool = False) -> Iterator[DocumentLibrary]:
    """Open the documents of the repository and of the user; with `create`, its database is made."""
    with open_databases(access.cwd, access.store, create=create) as databases:
        yield DocumentLibrary(databases, clock=WallClock())


async def ingested(
    library: DocumentLibrary, access: MemoryAccess, request: IngestRequest, reporting: Reporting
) -> MemoryAnswer:
    """Store files as documents, then their vectors; UsageError at the end if a file could not be stored."""
    if request.index == MEMORIES:
        raise UsageError(f"{MEMORIES} holds memories, not documents", "Name another index.")
    scope = request.scope or library.usual_scope
    done: list[Ingested] = []
    failed: list[_Failed] = []
    async with reader_place() as place:
        reader = DocumentReader(place, access.redactor)
        ingestion = library.ingestion(scope, request.index, reader, reporting.on_progress)
        for path in request.files:
            name = document_name(path, scope, access.cwd)
            try:
                with opened_file(path, name) as opened:
                    done.append(await ingestion.add(opened, request.options))
            except UsageError as error:
                failed.append(_Failed(name, error))
                if isinstance(error, IndexFull):
                    break
    vectors = await _filled(library, scope, request.index, reporting) if done else 0
    if failed and not done and len(failed) == 1:
        raise failed[0].error
    return _report(done, failed, vectors, by_meaning=library.has_vectors(scope))


async def _filled(library: DocumentLibrary, scope: MemoryScope, index: CollectionName, reporting: Reporting) -> int:
    vectors = 0
    while count := await library.fill(scope, index, most=VECTORS_AT_ONCE):
        vectors += count
        reporting.on_vectors(vectors)
    return vectors


def document_name(path: Path, scope: MemoryScope, cwd: Path) -> str:
    """Return how a document is called: by its path in the repository, or in full."""
    full = path.resolve()
    if scope == "project":
        try:
            return one_line(utf8_safe(full.relative_to(find_top(cwd).resolve()).as_posix()))
        except (NotInRepository, ValueError):
            pass
    return one_line(utf8_safe(str(full)))


def _report(done: Sequence[Ingested], failed: Sequence[_Failed], vectors: int, *, by_meaning: bool) -> MemoryAnswer:
    lines = [line for each in done for line in _ingested_lines(each)]
    lines += [f"{printable(each.name)}: not stored: {printable(each.error.what)}" for each in failed]
    lines += [f"  {line}" for line in dict.fromkeys(printable(each.error.fix) for each in failed)]
    if len(done) > 1:
        lines.append(f"{count_of(len(done), 'document')}, {count_of(sum(each.chunks for each in done), 'chunk')}")
    if vectors:
        lines.append(f"{count_of(vectors, 'vector')} added")
    elif done and not by_meaning:
        lines.append("Found by words; with the extra `memory` also by meaning.")
    data = {
        "documents": [
            {**_document_json(each.document), "chunks": each.chunks, "outcome": each.outcome, "resumed": each.resumed}
            for each in done
        ],
        "failed": [{"name": each.name, "error": each.error.what} for each in failed],
        "vectors": vectors,
    }
    return MemoryAnswer("\n".join(lines), data)


def _ingested_lines(each: Ingested) -> Iterator[str]:
    document = each.document
    pages = f"{count_of(document.length, 'page')}, " if has_pages(document) else ""
    went_on = ", from where it was" if each.resumed and each.outcome != "unchanged" else ""
    yield f"{label(document)}: {each.outcome}{went_on}: {pages}{count_of(each.chunks, 'chunk')}  {document.id}"
    yield from (f"  {line}" for line in missing_lines(document.missing))


def label(document: Document) -> str:
    """Return the name of a document, with its pages if it is only some of them."""
    pages = document.source.rpartition(PAGES_OF)[2] if PAGES_OF in document.source else ""
    return printable(document.name) + (f" (pages {pages})" if pages else "")


def has_pages(document: Document) -> bool:
    """Return whether the length of a document is counted in pages."""
    return PAGES_OF in document.source or document.name.lower().endswith(PDF_SUFFIX)


def missing_lines(missing: Mapping[str, str]) -> list[str]:
    """Return what could not be read of a document as sentences."""
    return [
        f"page {pages} {problem}"
        if pages.isdigit()
        else f"pages {pages.replace(',', ', ')} {in_number(problem, len(pages))}"
        for problem, pages in missing.items()
    ]


def document_list(library: DocumentLibrary, index: str | None = None) -> MemoryAnswer:
    """Return the documents, of one index or of all."""
    if index is not None:
        require_index(library, index)
    found = library.all(None if index is None else CollectionName(index))
    lines = [line for each in found for line in _stored_lines(each)]
    nothing = "There are no documents yet. `scaffold memory ingest FILE` stores one."
    return MemoryAnswer("\n".join(lines) or nothing, {"documents": [_stored_json(each) for each in found]})


async def passages(library: DocumentLibrary, index: str, query: str, *, most: int = MOST_FOUND) -> MemoryAnswer:
    """Return the parts of documents that fit a query, the best first, each with its page."""
    require_index(library, index)
    found = await library.find(CollectionName(index), utf8_safe(query), most=most)
    lines = [line for each in found for line in _passage_lines(each)]
    nothing = f"Nothing in {index} fits {quoted(query)}."
    return MemoryAnswer("\n".join(lines) or nothing, {"index": index, "passages": [_passage_json(e) for e in found]})


def document_forgotten(library: DocumentLibrary, names: Sequence[str]) -> MemoryAnswer:
    """Delete documents with all their text; all are found before any is deleted."""
    found = list({each.document.id: each for each in map(library.named, names)}.values())
    log_emptied = [library.forget(each) for each in found]
    lines = [f"forgot {printable(each.document.name)}: {count_of(each.chunks, 'chunk')}" for each in found]
    if not all(log_emptied):
        lines.append("Their text is in the database's log until the processes that read it have ended.")
    return MemoryAnswer(
        "\n".join(lines), {"forgotten": [each.document.id for each in found], "log_emptied": all(log_emptied)}
    )


def require_index(library: DocumentLibrary, index: str) -> None:
    """Raise UsageError if there is no such index."""
    known = {DOCUMENTS, *library.indices()}
    if index not in known:
        raise UsageError(f"there is no index {quoted(index)}", f"There is {quoted_list(sorted(known))}.")


def _stored_lines(each: StoredDocument) -> Iterator[str]:
    document = each.document
    unit = "pages" if has_pages(document) else "characters"
    part = "" if document.state == "read" else f", {document.position:,} of {document.length:,} {unit} so far"
    of_user = "  (user)" if each.scope == "user" else ""
    yield (
        f"{document.id}  {label(document)}  {count_of(each.chunks, 'chunk')}, "
        f"{count_of(each.vectors, 'vector')}{part}  {document.collection}{of_user}"
    )
    yield from (f"  {line}" for line in missing_lines(document.missing))


def _passage_lines(each: FoundPassage) -> Iterator[str]:
    chunk = each.hit.chunk
    title = f"  {first_line(chunk.title, SHOWN_CHARS // 2)}" if chunk.title else ""
    yield printable(f"{each.place}{title}")
    yield f"  {printable(first_line(chunk.text, SHOWN_CHARS))}"


def _passage_json(each: FoundPassage) -> dict[str, Any]:
    chunk = each.hit.chunk
    return {
        "id": chunk.id,
        "document": chunk.document,
        "name": chunk.source.removeprefix("file:"),
        "page": chunk.span.page or None,
        "start": chunk.span.start,
        "end": chunk.span.end,
        "title": chunk.title,
        "text": chunk.text,
        "scope": each.scope,
        "cosine": None if each.hit.cosine is None else round(each.hit.cosine, 4),
    }


def _stored_json(each: StoredDocument) -> dict[str, Any]:
    return {**_document_json(each.document), "scope": each.scope, "chunks": each.chunks, "vectors": each.vectors}


def _document_json(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "name": document.name,
        "index": document.collection,
        "state": document.state,
        "position": document.position,
        "length": document.length,
        "missing": document.missing,
        "sha256": document.sha256,
        "created_at": document.created_at,
    }
