"""The agent's tool that stores a PDF: each call works for a limited time, and the next one continues."""

import asyncio
import time

from scaffold.core.knowledge import DOCUMENTS, CollectionName
from scaffold.core.printable_text import count_of
from scaffold.core.tool import ToolOutput
from scaffold.host.wall_clock import WallClock
from scaffold.memory.chunking.text_pieces import MAX_CHARS, PieceSize
from scaffold.memory.documents.ingestion import Ingested, Ingestion, Progress
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.documents.parts import DocumentReader, ReadingOptions
from scaffold.memory.documents.reader_sandbox import reader_place
from scaffold.memory.documents.source_files import OpenedFile
from scaffold.session.memory.answer import NOUNS
from scaffold.session.memory.document_commands import document_name, label, missing_lines, open_library
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.ingest import pages_of
from scaffold.session.memory.pdf_text import OpenPdf, with_workspace_pdf
from scaffold.tools.workspace import Workspace, failed_answer

TIME_LIMIT_S = 60.0
VECTORS_S = 20.0
VECTORS_AT_ONCE = 64
MOST_CHARS = 10_000


class PdfDocuments:
    """Implements `tools.documents.DocumentActions`; opens the databases for each call."""

    def __init__(self, access: MemoryAccess, workspace: Workspace, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._access = access
        self._workspace = workspace
        self._time_limit_s = time_limit_s

    async def add_pdf_document(self, path: str, index: str, pages: str, chunk_size: int | None) -> ToolOutput:
        """Store a PDF of the workspace in an index."""
        if (held := NOUNS.get(CollectionName(index))) is not None:
            return failed_answer(f"{index} holds {held}, not documents; use another `index`.")

        async def answer(pdf: OpenPdf) -> ToolOutput:
            size = PieceSize(min(chunk_size or MAX_CHARS, MOST_CHARS))
            options = ReadingOptions(pages=read_page_ranges(pages), size=size)
            return await self._add_document(pdf, CollectionName(index or DOCUMENTS), options)

        return await with_workspace_pdf(self._workspace, path, answer)

    async def _add_document(self, pdf: OpenPdf, index: CollectionName, options: ReadingOptions) -> ToolOutput:
        stored: list[Progress] = []
        with open_library(self._access, create=True) as library:
            scope = library.usual_scope
            name = document_name(pdf.path, scope, self._access.cwd)
            opened = OpenedFile(pdf.file, name, is_pdf=True)
            async with reader_place() as place:
                reader = DocumentReader(place, self._access.redactor)
                ingestion = Ingestion(
                    library.database(scope),
                    index,
                    reader,
                    clock=WallClock(),
                    on_progress=stored.append,
                    noted=library.databases.noted(scope),
                )
                try:
                    async with asyncio.timeout(self._time_limit_s):
                        done = await ingestion.add(opened, options)
                except TimeoutError:
                    if not stored:
                        return ToolOutput(f"{name}: nothing is stored yet. Call it again to continue.")
                    document = stored[-1].document
                    return ToolOutput(
                        f"{name}: pages up to {document.position:,} of {document.length:,} are stored in "
                        f"{document.collection}, and can be searched. Call it again to continue."
                    )
            until = time.monotonic() + VECTORS_S
            while time.monotonic() < until and await library.fill(library.usual_scope, index, most=VECTORS_AT_ONCE):
                pass
            return ToolOutput("\n".join([_stored_text(done, options, library), *missing_lines(done.document.missing)]))


def _stored_text(done: Ingested, options: ReadingOptions, library: DocumentLibrary) -> str:
    document = done.document
    missing = done.chunks - library.named(document.id).vectors
    by_words = f"; {missing:,} of them are found by words alone so far" if missing else ""
    return (
        f"{label(document)}: {done.outcome} as document {document.id} in {document.collection}: "
        f"{pages_of(document, options)}, {count_of(done.chunks, 'chunk')}{by_words}."
    )
