"""Collections: sets of chunks that are searched together, with at most so many chunks."""

from scaffold.core.knowledge import CAPACITIES, Collection, CollectionName
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.knowledge.changes import take_numbers

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


class Collections(TableGateway):
    """The collections of one database."""

    def ensure(self, name: CollectionName, *, capacity: int | None = None) -> Collection:
        """Return a collection, which is created if it is missing; needs a transaction."""
        holds = capacity or capacity_of(name)
        at = format_time(self._clock.now())
        self._connection.write(ADD, name=name, model="", dimension=0, capacity=holds, created_at=at)
        return _collection(self._connection.require_row(GET.replace(":name", ":id"), "collection", name))

    def get(self, name: CollectionName) -> Collection | None:
        """Return the collection; None if there is none."""
        row = self._connection.row(GET, name=name)
        return None if row is None else _collection(row)

    def all(self) -> tuple[Collection, ...]:
        """Return all collections, by name."""
        return tuple(map(_collection, self._connection.rows(ALL)))

    def set_model(self, name: CollectionName, model: str, dimension: int) -> None:
        """Let vectors of a collection be of this model; vectors of another one are deleted: they do not compare."""
        before = self.get(name)
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


def _collection(row: Row) -> Collection:
    return Collection(
        name=row["name"],
        model=row["model"],
        dimension=row["dimension"],
        capacity=row["capacity"],
        created_at=parse_time(row["created_at"]),
    )
