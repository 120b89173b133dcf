"""The number of the last change to what is known: an index that was made from an older one knows what it lacks."""

from scaffold.store.driver.connection import Connection

TAKE = "UPDATE knowledge_change SET number = number + :count RETURNING number"
LAST = "SELECT number FROM knowledge_change"


def take_numbers(connection: Connection, count: int) -> range:
    """Return the next `count` numbers; needs a transaction."""
    last = int(connection.write_returning(TAKE, count=count)[0]["number"])
    return range(last - count + 1, last + 1)


def last_number(connection: Connection) -> int:
    """Return the number of the last change; 0 if there was none."""
    row = connection.row(LAST)
    return 0 if row is None else int(row["number"])
