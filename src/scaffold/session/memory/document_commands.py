"""The user's commands about documents: stored, listed, searched, deleted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scaffold.core.errors import NotInRepository, UsageError
from scaffold.core.knowledge import DOCUMENTS, TRACES_LEFT, CollectionName, Document
from scaffold.core.printable_text import count_of, one_line, printable, utf8_safe
from scaffold.git.common_dir import find_top
from scaffold.memory.documents.library import DocumentLibrary, FoundPassage
from scaffold.memory.documents.pdf_reader import in_number
from scaffold.memory.documents.source_files import PAGES_OF, PDF_SUFFIX, SOURCE
from scaffold.memory.notes import MemoryScope, first_line
from scaffold.memory.opening import open_databases
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.embedding import MemoryAccess

MOST_FOUND = 10
SHOWN_CHARS = 160


@contextmanager
def open_library(access: MemoryAccess, *, create: bool = False) -> Iterator[DocumentLibrary]:
    """Open the documents of the repository and of the user; with `create`, its database is made."""
    with open_databases(access.cwd, access.store, create=create, embedder=access.embedder()) as databases:
        yield DocumentLibrary(databases)


def document_name(path: Path, scope: MemoryScope, cwd: Path) -> str:
    """Return how a document is called: by its path in the repository, or in full."""
    full = path.resolve()
    if scope == "project":
        try:
            return one_line(utf8_safe(full.relative_to(find_top(cwd).resolve()).as_posix()))
        except (NotInRepository, ValueError):
            pass
    return one_line(utf8_safe(str(full)))


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
    lines = []
    for each in found:
        document = each.document
        unit = "pages" if has_pages(document) else "characters"
        so_far = f"{document.position:,} of {document.length:,} {unit}" if document.position else "nothing"
        part = "" if document.state == "read" else f", {so_far} so far"
        of_user = "  (user)" if each.scope == "user" else ""
        lines.append(
            f"{document.id}  {label(document)}  {count_of(each.chunks, 'chunk')}, "
            f"{count_of(each.vectors, 'vector')}{part}  {document.collection}{of_user}"
        )
        lines += [f"  {line}" for line in missing_lines(document.missing)]
    nothing = "There are no documents yet. `scaffold memory ingest FILE` stores one."
    rows = [
        {**document_json(each.document), "scope": each.scope, "chunks": each.chunks, "vectors": each.vectors}
        for each in found
    ]
    return MemoryAnswer("\n".join(lines) or nothing, {"documents": rows})


async def passages_if_any(library: DocumentLibrary, index: str, query: str) -> MemoryAnswer | None:
    """Return what `passages` does; None for an index that has no documents."""
    has_documents = index == DOCUMENTS or library.all(CollectionName(index))
    return await passages(library, index, query) if has_documents else None


async def passages(library: DocumentLibrary, index: str, query: str, *, most: int = MOST_FOUND) -> MemoryAnswer:
    """Return the parts of documents that fit a query, the best first, each with its page."""
    require_index(library, index)
    found = await library.find(CollectionName(index), utf8_safe(query), most=most)
    lines = []
    for each in found:
        chunk = each.hit.chunk
        title = f"  {first_line(chunk.title, SHOWN_CHARS // 2)}" if chunk.title else ""
        lines += [printable(f"{each.place}{title}"), f"  {printable(first_line(chunk.text, SHOWN_CHARS))}"]
    nothing = f"Nothing in {index} fits {quoted(query)}."
    return MemoryAnswer("\n".join(lines) or nothing, {"index": index, "passages": [_passage_json(e) for e in found]})


def document_forgotten(library: DocumentLibrary, names: Sequence[str]) -> MemoryAnswer:
    """Delete documents with all their text; all are found before any is deleted."""
    found = list({each.document.id: each for each in map(library.named, names)}.values())
    log_emptied = [library.forget(each) for each in found]
    lines = [f"forgot {printable(each.document.name)}: {count_of(each.chunks, 'chunk')}" for each in found]
    if not all(log_emptied):
        lines.append(TRACES_LEFT)
    return MemoryAnswer(
        "\n".join(lines), {"forgotten": [each.document.id for each in found], "log_emptied": all(log_emptied)}
    )


def require_index(library: DocumentLibrary, index: str) -> None:
    """Raise UsageError if there is no such index."""
    known = {DOCUMENTS, *library.indices()}
    if index not in known:
        raise UsageError(f"there is no index {quoted(index)}", f"There is {quoted_list(sorted(known))}.")


def _passage_json(each: FoundPassage) -> dict[str, Any]:
    chunk = each.hit.chunk
    return {
        "id": chunk.id,
        "document": chunk.document,
        "name": chunk.source.removeprefix(SOURCE),
        "page": chunk.span.page or None,
        "start": chunk.span.start,
        "end": chunk.span.end,
        "title": chunk.title,
        "text": chunk.text,
        "scope": each.scope,
        "cosine": None if each.hit.cosine is None else round(each.hit.cosine, 4),
    }


def document_json(document: Document) -> dict[str, Any]:
    """Return what is known of a document."""
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
