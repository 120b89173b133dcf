"""Collections: sets of chunks that are searched together, with at most so many chunks."""

from scaffold.core.knowledge import CAPACITIES, Collection, CollectionName, Document, DocumentId
from scaffold.store.driver.columns import OBJECT, read_struct, struct_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.knowledge.changes import take_numbers

ADD_DOCUMENT = """
INSERT INTO document (id, collection, name, source, sha256, state, position, length, error, created_at)
VALUES (:id, :collection, :name, :source, :sha256, :state, :position, :length, :missing, :created_at)
"""
MOVE = """
UPDATE document SET state = :state, position = :position, length = :length, error = :missing
WHERE id = :id AND state = :state_before AND position = :position_before
"""
GET_DOCUMENT = "SELECT * FROM document WHERE id = :id"
OF_SOURCE = "SELECT * FROM document WHERE collection = :collection AND source = :source ORDER BY created_at, id"
OF_COLLECTION = "SELECT * FROM document WHERE collection = :collection ORDER BY name, created_at, id"
ALL_DOCUMENTS = "SELECT * FROM document ORDER BY collection, name, created_at, id"
COUNT_CHUNKS = "SELECT COUNT(*) AS chunks FROM chunk WHERE document_id = :id"
COUNT_VECTORS = """
SELECT COUNT(*) AS vectors FROM embedding JOIN chunk ON chunk.seq = embedding.chunk_seq WHERE chunk.document_id = :id
"""
END = "SELECT COALESCE(MAX(end_char), -1) AS last FROM chunk WHERE document_id = :id"
COUNT_PENDING = "SELECT COUNT(*) AS chunks FROM chunk WHERE document_id = :id AND state = 'pending'"
NOTE_ARRIVALS = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT place, chunk_seq, place, collection FROM (
    SELECT :first - 1 + ROW_NUMBER() OVER (ORDER BY seq) AS place, seq AS chunk_seq, collection
    FROM chunk WHERE document_id = :id AND state = 'pending'
) AS pending
"""
"""For chunks that count from now on: they have no vectors yet, and need some."""
ACTIVATE = "UPDATE chunk SET state = 'active' WHERE document_id = :id AND state = 'pending'"
NOTE_REMOVALS_OF_DOCUMENT = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT embedding.seq, embedding.chunk_seq, :seq, embedding.collection
FROM embedding JOIN chunk ON chunk.seq = embedding.chunk_seq WHERE chunk.document_id = :id
"""
FORGET_EMBEDDINGS_OF_DOCUMENT = (
    "DELETE FROM embedding WHERE chunk_seq IN (SELECT seq FROM chunk WHERE document_id = :id)"
)
FORGET_CHUNKS = "DELETE FROM chunk WHERE document_id = :id"
FORGET_DOCUMENT = "DELETE FROM document WHERE id = :id"
ADD = """
INSERT INTO collection (name, model, dimension, capacity, created_at)
VALUES (:name, :model, :dimension, :capacity, :created_at) ON CONFLICT DO NOTHING
"""
GET = "SELECT * FROM collection WHERE name = :name"
ALL = "SELECT * FROM collection ORDER BY name"
SET_MODEL = "UPDATE collection SET model = :model, dimension = :dimension WHERE name = :name"
NOTE_REMOVALS = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT seq, chunk_seq, :seq, collection FROM embedding WHERE collection = :name
"""
FORGET_EMBEDDINGS = "DELETE FROM embedding WHERE collection = :name"
FORGET = "DELETE FROM collection WHERE name = :name"
DEFAULT_CAPACITY = 10_000


class Documents(TableGateway):
    """The documents of one database."""

    def add(self, document: Document) -> None:
        """Store a document of which nothing is stored yet."""
        self._connection.write(ADD_DOCUMENT, **struct_columns(document, missing=OBJECT.write(document.missing)))

    def move(self, before: Document, after: Document) -> None:
        """Store how far a document has been read; StaleFence if another process has read it further meanwhile."""
        self._connection.compare_and_set(
            MOVE,
            "document",
            before.id,
            state=after.state,
            position=after.position,
            length=after.length,
            missing=OBJECT.write(after.missing),
            state_before=before.state,
            position_before=before.position,
        )

    def get(self, document: DocumentId) -> Document | None:
        """Return the document; None if there is none."""
        row = self._connection.row(GET_DOCUMENT, id=document)
        return None if row is None else _read_document(row)

    def for_source(self, collection: CollectionName, source: str) -> tuple[Document, ...]:
        """Return the versions of a document, the oldest first."""
        return tuple(map(_read_document, self._connection.rows(OF_SOURCE, collection=collection, source=source)))

    def all(self, collection: CollectionName | None = None) -> tuple[Document, ...]:
        """Return the documents of a collection, or of all, by their names."""
        if collection is None:
            return tuple(map(_read_document, self._connection.rows(ALL_DOCUMENTS)))
        return tuple(map(_read_document, self._connection.rows(OF_COLLECTION, collection=collection)))

    def chunks(self, document: DocumentId) -> int:
        """Return how many chunks a document has."""
        return int(self._connection.rows(COUNT_CHUNKS, id=document)[0]["chunks"])

    def vectors(self, document: DocumentId) -> int:
        """Return how many of its chunks have a vector."""
        return int(self._connection.rows(COUNT_VECTORS, id=document)[0]["vectors"])

    def end(self, document: DocumentId) -> int:
        """Return the end of its last chunk; -1 if it has none."""
        return int(self._connection.rows(END, id=document)[0]["last"])

    def activate(self, document: DocumentId) -> None:
        """Let the chunks of a complete version be found."""
        pending = int(self._connection.rows(COUNT_PENDING, id=document)[0]["chunks"])
        # Each number stands for a change, so none is taken without one.
        if pending:
            numbers = take_numbers(self._connection, pending)
            self._connection.write(NOTE_ARRIVALS, id=document, first=numbers[0])
            self._connection.write(ACTIVATE, id=document)

    def forget_for_good(self, document: DocumentId) -> None:
        """Delete a document, with all that is left of its words; then `KnowledgeTables.empty_log`."""
        self.forget(document)
        self._connection.driver.rewrite_words("chunk_words")

    def forget(self, document: DocumentId) -> None:
        """Delete a document with its chunks, their words and vectors."""
        number = take_numbers(self._connection, 1)[0]
        self._connection.write(NOTE_REMOVALS_OF_DOCUMENT, id=document, seq=number)
        self._connection.write(FORGET_EMBEDDINGS_OF_DOCUMENT, id=document)
        self._connection.write(FORGET_CHUNKS, id=document)
        self._connection.write(FORGET_DOCUMENT, id=document)


class Collections(TableGateway):
    """The collections of one database."""

    def ensure(self, name: CollectionName, *, capacity: int | None = None) -> Collection:
        """Return a collection, which is created if it is missing; needs a transaction."""
        holds = capacity or capacity_of(name)
        at = self._now_text()
        self._connection.write(ADD, name=name, model="", dimension=0, capacity=holds, created_at=at)
        # `require_row` finds by `:id`.
        return read_struct(Collection, self._connection.require_row(GET.replace(":name", ":id"), "collection", name))

    def get(self, name: CollectionName) -> Collection | None:
        """Return the collection; None if there is none."""
        row = self._connection.row(GET, name=name)
        return None if row is None else read_struct(Collection, row)

    def all(self) -> tuple[Collection, ...]:
        """Return all collections, by name."""
        return tuple(read_struct(Collection, row) for row in self._connection.rows(ALL))

    def set_model(self, name: CollectionName, model: str, dimension: int) -> None:
        """Let vectors of a collection be of this model; vectors of another one are deleted: they do not compare."""
        before = self.get(name)
        # Called for each page of vectors: the same model again must not delete those of the page before.
        if before is not None and (before.model, before.dimension) == (model, dimension):
            return
        self._drop_vectors(name)
        self._connection.write(SET_MODEL, name=name, model=model, dimension=dimension)

    def forget(self, name: CollectionName) -> None:
        """Delete a collection with its documents, chunks, words and vectors."""
        self._drop_vectors(name)
        self._connection.write(FORGET, name=name)

    def _drop_vectors(self, name: CollectionName) -> None:
        number = take_numbers(self._connection, 1)[0]
        self._connection.write(NOTE_REMOVALS, name=name, seq=number)
        self._connection.write(FORGET_EMBEDDINGS, name=name)


def capacity_of(name: CollectionName) -> int:
    """Return how many chunks a collection holds unless its maker says otherwise."""
    return CAPACITIES.get(name, DEFAULT_CAPACITY)


def _read_document(row: Row) -> Document:
    return read_struct(Document, row, missing=OBJECT.read(row["error"]))
