"""The tools of the vector database, whose indexes an agent makes, fills and searches; PDFs can be stored in it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.file.read_write import MORE_FILE_TOOLS

LEAST_CHARS = 100
PAGES = {"type": "string", "description": "`1-3,7`, `10-`; default all."}


class DocumentActions(Protocol):
    """Documents that can be stored."""

    async def add_pdf_document(self, path: str, index: str, pages: str, chunk_size: int | None) -> ToolOutput:
        """Store a PDF in an index; empty arguments, or None, are not given."""
        ...


VECTOR_DB = ToolGroup("vector_db", "indexes of texts or vectors to keep and to search by meaning, words or time")
TEXT = {"type": "string"}
INDEX = {"index": TEXT}
NUMBERS = {"type": "array", "items": {"type": "number"}}
METADATA = {"type": "object", "description": "Fields and their values."}
FILTER = {"type": "object", "description": "Fields that must have these values."}
K = {"type": "integer", "minimum": 1}
FOUND = 5
"""How many items a search returns unless the agent says."""
MOST_FOUND = 50


class VectorDatabase(Protocol):
    """Indexes on which the tools work."""

    async def call(self, tool: str, args: Mapping[str, Any]) -> ToolOutput:
        """Return the answer of the tool with this name, without `vector_db_`."""
        ...

    async def close(self) -> None:
        """End what its tools do in the background."""
        ...


class _VectorRow(Struct, frozen=True):
    name: str
    description: str
    schema: Mapping[str, Any]
    reads: bool = False


_ROWS = (
    _VectorRow(
        "create_index",
        "Create an index: of texts, whose vectors are computed here; with `dimension`, of vectors you compute.",
        object_schema(INDEX, dimension={"type": "integer", "minimum": 1}),
    ),
    _VectorRow("delete_index", "Delete an index with all it has, for good.", object_schema(INDEX)),
    _VectorRow("list_indices", "List the indexes, and how full they are.", object_schema({}), reads=True),
    _VectorRow(
        "add_vector",
        "Add a vector, with what it stands for.",
        object_schema({**INDEX, "vector": NUMBERS}, text=TEXT, metadata=METADATA),
    ),
    _VectorRow(
        "update_vector",
        "Change an item: what is given replaces what it has.",
        object_schema({**INDEX, "id": TEXT}, vector=NUMBERS, text=TEXT, metadata=METADATA),
    ),
    _VectorRow(
        "delete_vector", "Delete items for good.", object_schema({**INDEX, "ids": {"type": "array", "items": TEXT}})
    ),
    _VectorRow(
        "get_vector", "Show an item in full, with its vector.", object_schema({**INDEX, "id": TEXT}), reads=True
    ),
    _VectorRow(
        "search",
        f"Find the items nearest to a vector by cosine; {FOUND} unless `k` is given.",
        object_schema({**INDEX, "vector": NUMBERS}, k=K, metadata=FILTER),
        reads=True,
    ),
    _VectorRow(
        "search_text",
        "Find the items that fit a query, by words and by meaning.",
        object_schema({**INDEX, "query": TEXT}, k=K, metadata=FILTER),
        reads=True,
    ),
    _VectorRow(
        "search_by_time",
        "Find the items stored from `since` on and before `until`, the newest first.",
        object_schema(
            INDEX, since={**TEXT, "description": "ISO 8601, UTC by default."}, until=TEXT, k=K, metadata=FILTER
        ),
        reads=True,
    ),
    _VectorRow(
        "add_text", "Add a text of up to 8,000 characters.", object_schema({**INDEX, "text": TEXT}, metadata=METADATA)
    ),
    _VectorRow(
        "add_chunked_text",
        "Add a long text, split where its sections, paragraphs or functions end.",
        object_schema(
            {**INDEX, "text": TEXT},
            kind={"type": "string", "enum": ["text", "markdown", "python"]},
            source={**TEXT, "description": "Where it is from."},
            metadata=METADATA,
        ),
    ),
)


def vector_db_tools(database: VectorDatabase) -> tuple[Tool, ...]:
    """Return the tools, all of one group."""
    return tuple(_database_tool(database, row) for row in _ROWS)


def _database_tool(database: VectorDatabase, row: _VectorRow) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return await database.call(row.name, args)

    return Tool(
        name=f"vector_db_{row.name}",
        description=row.description,
        schema=row.schema,
        category="memory",
        run=run,
        read_only=row.reads,
        group=VECTOR_DB,
    )


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
        group=MORE_FILE_TOOLS,
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
