"""The tools that read PDFs, and store them so that they can be searched."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.vector_db import VECTOR_DB

LEAST_CHARS = 100
PAGES = {"type": "string", "description": "`1-3,7`, `10-`; default all."}


class DocumentActions(Protocol):
    """Documents that can be stored."""

    async def add_pdf_document(self, path: str, index: str, pages: str, chunk_size: int | None) -> ToolOutput:
        """Store a PDF in an index; empty arguments, or None, are not given."""
        ...


def pdf_extract_text(read: Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]) -> Tool:
    """Return the tool that shows the text of a PDF; `read` does it."""
    return Tool(
        name="pdf_extract_text",
        description="Text of a PDF, by page.",
        schema=object_schema(
            {"path": {"type": "string"}}, pages=PAGES, format={"type": "string", "enum": ["text", "json"]}
        ),
        category="file_read",
        run=read,
    )


def pdf_document_tool(actions: DocumentActions) -> Tool:
    """Return the tool that stores a PDF in pieces that can be searched."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return await actions.add_pdf_document(
            args["path"], args.get("index", ""), args.get("pages", ""), args.get("chunk_size")
        )

    return Tool(
        name="vector_db_add_pdf_document",
        description=(
            "Store a PDF in an index, so that its parts are found with their pages. Call it again if it says that "
            "there is more; an unchanged PDF is not stored twice."
        ),
        schema=object_schema(
            {"path": {"type": "string"}},
            index={"type": "string", "description": "Default `documents`; created if missing."},
            pages=PAGES,
            chunk_size={"type": "integer", "minimum": LEAST_CHARS, "description": "Most characters; default 1200."},
        ),
        category="memory",
        run=run,
        group=VECTOR_DB,
    )
