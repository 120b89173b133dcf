"""The number of the last change to what is known: what was made from an older one knows by it what it lacks.

Each change has a random mark as well, since a backup that is restored brings its numbers back.
"""

import os

from msgspec import Struct

from scaffold.store.driver.connection import Connection

TAKE = "UPDATE knowledge_change SET number = number + :count RETURNING number"
LAST = """
SELECT number, (SELECT mark FROM knowledge_mark WHERE knowledge_mark.number = knowledge_change.number) AS mark
FROM knowledge_change
"""
MARK_OF = "SELECT mark FROM knowledge_mark WHERE number = :number"
ADD_MARK = "INSERT INTO knowledge_mark (number, mark) VALUES (:number, :mark)"
FORGET_MARKS = "DELETE FROM knowledge_mark WHERE number < :number"
MARKS_KEPT = 20_000
"""For so many numbers marks are kept: who is farther behind reads everything anew, which takes about as long."""


class Moment(Struct, frozen=True):
    """A state of what is known; two are equal only if everything known is."""

    number: int
    """The number of its last change; 0 if there was none."""
    mark: str


def take_numbers(connection: Connection, count: int) -> range:
    """Return the next `count` numbers; needs a transaction."""
    last = int(connection.write_returning(TAKE, count=count)[0]["number"])
    connection.write(ADD_MARK, number=last, mark=os.urandom(8).hex())
    connection.write(FORGET_MARKS, number=last - MARKS_KEPT)
    return range(last - count + 1, last + 1)


def last_moment(connection: Connection) -> Moment:
    """Return the present state."""
    row = connection.row(LAST)
    return Moment(0, "") if row is None else Moment(int(row["number"]), row["mark"] or "")


def has_been(connection: Connection, moment: Moment) -> bool:
    """Return whether the database was in that state; False, too, if that is too long ago to tell."""
    row = connection.row(MARK_OF, number=moment.number)
    return row is not None and row["mark"] == moment.mark
